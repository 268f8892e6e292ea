// Small helpers of formats.
#pragma once

#include <cstddef>
#include <string_view>

#include "server/logimport/format.h"

namespace scalewatch::logimport {

// The unclaimed part of the line that holds position `at`; empty when it is claimed.
inline std::string_view gap_at(const Line& line, std::size_t at, Readings& out) {
  for (const std::string_view gap : out.gaps()) {
    const auto begin = static_cast<std::size_t>(gap.data() - line.text.data());
    if (at >= begin && at < begin + gap.size()) return gap;
  }
  return {};
}

}  // namespace scalewatch::logimport
