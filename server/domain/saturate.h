// Sums of counts that others tell, which must not begin anew at 0.
#pragma once

#include <cstdint>
#include <limits>

namespace scalewatch::domain {

// a + b, or the largest count that there is.
constexpr std::uint64_t saturating_add(std::uint64_t a, std::uint64_t b) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  return b > kMost - a ? kMost : a + b;
}

}  // namespace scalewatch::domain
