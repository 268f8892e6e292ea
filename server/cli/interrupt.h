// Ctrl-C and SIGTERM as a request to stop.
#pragma once

#include <stop_token>

namespace scalewatch::cli {

// Blocks SIGINT and SIGTERM for this thread and all that it starts later, and waits for them on a thread of its own. Make it
// before any other thread. A second signal ends the process at once.
class Interrupt {
 public:
  Interrupt();
  [[nodiscard]] std::stop_token token() const { return source_.get_token(); }

 private:
  std::stop_source source_;
};

}  // namespace scalewatch::cli
