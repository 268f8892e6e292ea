// What the client says on stderr: at most one line a minute.
#pragma once

#include <chrono>
#include <string_view>

namespace scalewatch::client {

class Log {
 public:
  // Prints the line unless one was printed within the last minute. Used by one thread.
  void line(std::string_view text);

 private:
  std::chrono::steady_clock::time_point next_{};
};

}  // namespace scalewatch::client
