// `scalewatch whatif`: another policy over what was recorded. Throws CallError.
#pragma once

#include "server/cli/client.h"
#include "server/cli/options.h"
#include "server/cli/screen.h"

namespace scalewatch::cli {

void show_whatif(Client& client, const WhatIfOptions& options, const Screen& screen);

}  // namespace scalewatch::cli
