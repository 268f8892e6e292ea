// Reads text as a log, without its progress bars.
#pragma once

#include <string_view>
#include <vector>

#include "tests/unit/logimport/read_text.h"

namespace scalewatch::logimport {

inline std::vector<Reading> read_records(std::string_view text) {
  std::vector<Reading> all = read_text(text);
  std::erase_if(all, [](const Reading& reading) { return reading.kind == Reading::Kind::kProgress; });
  return all;
}

}  // namespace scalewatch::logimport
