// What the client says on stderr: at most one line a minute.
#pragma once

#include <string_view>

namespace scalewatch::client {

// Prints the line unless this process printed one within the last minute. Any thread.
void log_line(std::string_view text);

}  // namespace scalewatch::client
