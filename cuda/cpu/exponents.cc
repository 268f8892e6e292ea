#include <bit>
#include <cstring>
#include <type_traits>

#include "cuda/cpu/measure.h"
#include "cuda/record/format.h"

namespace scalewatch {
namespace {

// Bits only, so no floating-point mode matters.
template <class Word>
void count(const void* data, std::uint64_t numel, const FormatLayout& layout, ExponentCounts& counts) noexcept {
  constexpr auto kMagnitude = static_cast<Word>(static_cast<Word>(~Word{0}) >> 1);
  const auto* from = static_cast<const char*>(data);
  for (std::uint64_t i = 0; i < numel; ++i) {
    Word word;
    std::memcpy(&word, from + i * sizeof word, sizeof word);
    const std::uint64_t magnitude = word & kMagnitude;
    if (magnitude == 0 || magnitude >= layout.first_non_finite) continue;
    const auto field = static_cast<int>(magnitude >> layout.mantissa_bits);
    const int exponent =
        field != 0 ? field - layout.bias : static_cast<int>(std::bit_width(magnitude)) - layout.mantissa_bits - layout.bias;
    ++counts.counts[ExponentCounts::bin(exponent)];
  }
}

}  // namespace

void measure_exponents(const void* data, DType dtype, std::uint64_t numel, ExponentCounts& counts) noexcept {
  if (data == nullptr) return;
  const FormatLayout layout = format_layout(dtype);
  switch (layout.bits) {
    case 8:
      return count<std::uint8_t>(data, numel, layout, counts);
    case 16:
      return count<std::uint16_t>(data, numel, layout, counts);
    case 32:
      return count<std::uint32_t>(data, numel, layout, counts);
    case 64:
      return count<std::uint64_t>(data, numel, layout, counts);
    default:
      return;
  }
}

}  // namespace scalewatch
