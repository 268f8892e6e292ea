// What the client says on stderr: at most one line a minute.
#pragma once

#include <string_view>

namespace scalewatch::client {

// Prints the line unless this process printed one within the last minute; false when it did not. Any thread.
bool log_line(std::string_view text);

}  // namespace scalewatch::client
