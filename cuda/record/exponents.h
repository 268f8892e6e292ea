// Histogram of floor(log2 |x|) of a tensor's finite non-zero elements, one octave a bin, over fp32's range.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace scalewatch {

struct ExponentCounts {
  static constexpr int kFirst = -149;  // fp32's smallest subnormal
  static constexpr int kLast = 127;    // fp32's largest finite value
  static constexpr std::size_t kBins = kLast - kFirst + 1;

  std::array<std::uint64_t, kBins> counts{};  // counts[i]: elements with exponent kFirst + i

  // Bin of an exponent; exponents outside fp32's range (fp64 inputs) fall into the outermost bins.
  [[nodiscard]] static constexpr std::size_t bin(int exponent) noexcept {
    return static_cast<std::size_t>(std::clamp(exponent, kFirst, kLast) - kFirst);
  }
};

// Adds the counts of another tensor or shard.
constexpr void merge(ExponentCounts& into, const ExponentCounts& from) noexcept {
  for (std::size_t i = 0; i < ExponentCounts::kBins; ++i) into.counts[i] += from.counts[i];
}

}  // namespace scalewatch
