// Runs the command as main() would, into strings.
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <vector>

namespace scalewatch::cli {

struct Result {
  int code = 0;
  std::string out;
  std::string err;
};

struct Around {
  bool terminal = false;
  std::function<std::stop_token()> interrupt;
};

// The command's arguments after its name; asks the server at `address`.
Result run_command(const std::string& address, const std::vector<std::string>& arguments, const Around& around = {});

// Compares with tests/data/cli/NAME. With SCALEWATCH_UPDATE_GOLDEN set the file is written anew instead.
void expect_golden(const std::string& name, const std::string& text);

}  // namespace scalewatch::cli
