// scalewatch admin reload: asks a server to read its configuration file again.
#pragma once

#include <string>

#include "server/cli/client.h"
#include "server/cli/screen.h"

namespace scalewatch::cli {

struct ReloadOptions {
  std::string who;
};

// Says what was applied and what needs a restart. Throws CallError; its exit code is 1 where the file is at fault.
ExitCode reload_configuration(Client& client, const ReloadOptions& options, const Screen& screen);

}  // namespace scalewatch::cli
