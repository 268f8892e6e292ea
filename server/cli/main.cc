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

int columns() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

}  // namespace

int main(int argc, char** argv) {
  google::protobuf::SetLogHandler(nullptr);  // errors have one line, and it is ours
  std::optional<scalewatch::cli::Interrupt> interrupt;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return scalewatch::cli::run(
      argc, argv,
      {std::cout, std::cerr, shows_colors(), columns(), std::chrono::duration_cast<std::chrono::milliseconds>(now).count(),
       [&] { return interrupt.emplace().token(); }, &std::cin, isatty(STDERR_FILENO) == 1});
}
