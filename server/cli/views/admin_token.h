// scalewatch admin token: makes, lists and revokes the tokens in a file (server/auth/token_file.h).
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "server/cli/action.h"

namespace scalewatch::cli {

// Lives as long as the app that it was added to, and so does `chosen`.
class TokenCommands {
 public:
  void add_to(CLI::App& admin, Chosen& chosen);

 private:
  ExitCode create(const Screen& screen) const;
  ExitCode list(const Screen& screen) const;
  ExitCode revoke(const Screen& screen) const;

  std::string file_;
  std::string name_;
  std::vector<std::string> scopes_;
  std::vector<std::string> limits_;
  std::string expires_;
  std::string out_;
  std::string id_;
};

}  // namespace scalewatch::cli
