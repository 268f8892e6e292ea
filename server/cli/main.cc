// The scalewatch command.
#include <google/protobuf/stubs/logging.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>

#include "server/cli/cli.h"
#include "server/cli/interrupt.h"

namespace {

bool shows_colors() {
  const char* term = std::getenv("TERM");
  return isatty(STDOUT_FILENO) == 1 && (term == nullptr || std::string(term) != "dumb");
}

// Zeros where standard output is no terminal, or one that knows no size.
winsize terminal_size() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return {};
  return size;
}

}  // namespace

int main(int argc, char** argv) {
  google::protobuf::SetLogHandler(nullptr);  // errors have one line, and it is ours
  std::optional<scalewatch::cli::Interrupt> interrupt;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto size = terminal_size();
  return scalewatch::cli::run(
      argc, argv,
      {std::cout, std::cerr, shows_colors(), size.ws_col > 0 ? size.ws_col : 80,
       std::chrono::duration_cast<std::chrono::milliseconds>(now).count(), [&] { return interrupt.emplace().token(); },
       &std::cin, isatty(STDERR_FILENO) == 1, size.ws_row, scalewatch::cli::config_path()});
}
