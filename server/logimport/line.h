// One line of a log, or one piece of it where a progress bar returned the carriage in between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace scalewatch::logimport {

// Longer pieces are cut here: no line of a trainer is longer, and a file without line ends must not fill the memory.
inline constexpr std::size_t kMaxLineBytes = 64 * 1024;

struct Line {
  std::string_view text;                // without ANSI codes, line end and trailing blanks; valid only while the line is read
  std::uint64_t number = 0;             // from 1, in the file as it is: pieces between carriage returns share it
  std::uint32_t piece = 0;              // from 0, within the line
  std::size_t body = 0;                 // where the launcher's and the logger's prefix ends in text
  bool cut = false;                     // the rest of it was dropped
  std::optional<std::int64_t> time_ms;  // the first full timestamp in it, else a time of day at its start; any zone
  std::optional<std::uint32_t> rank;    // of the process, where a prefix says it
};

}  // namespace scalewatch::logimport
