// Times as loggers print them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace scalewatch::logimport {

struct Timestamp {
  std::int64_t ms = 0;     // since 1970 as if the zone were UTC; without a date since midnight; without a year since 1972
  std::size_t length = 0;  // bytes read; 0: none here
  bool has_date = false;
};

// The time that text begins with (forms: prefix.h).
Timestamp timestamp_at(std::string_view text);

// The first time with a date in the text's first 2,048 bytes.
std::optional<std::int64_t> find_timestamp(std::string_view text);

}  // namespace scalewatch::logimport
