// `scalewatch whatif`: another policy, or bf16, over what was recorded. Throws CallError.
#pragma once

#include <string>

#include "server/cli/client.h"
#include "server/cli/options.h"
#include "server/cli/screen.h"

namespace scalewatch::cli {

void show_whatif(Client& client, const WhatIfOptions& options, const Screen& screen);

// What bf16 would have changed over a range whose ends are set; at most `limit` tensors in the table.
void show_whatif_bf16(Client& client, const std::string& run, const RangeOptions& range, std::uint32_t limit,
                      const Screen& screen);

}  // namespace scalewatch::cli
