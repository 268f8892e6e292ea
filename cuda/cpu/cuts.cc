#include "cuda/cpu/cuts.h"

#include <bit>
#include <cmath>

#include "cuda/record/format.h"

namespace scalewatch::cpu {
namespace {

__extension__ using Wide = unsigned __int128;

int bit_width(Wide value) noexcept {
  const auto high = static_cast<std::uint64_t>(value >> 64);
  return high != 0 ? 64 + static_cast<int>(std::bit_width(high))
                   : static_cast<int>(std::bit_width(static_cast<std::uint64_t>(value)));
}

// The largest finite magnitude of a format that is not above a number, and whether it equals it.
struct Floor {
  std::uint64_t bits = 0;
  bool exact = false;
};

// The number is mantissa * 2^exponent, mantissa > 0.
Floor round_down(Wide mantissa, int exponent, const FormatLayout& layout) noexcept {
  const Floor beyond{layout.first_non_finite - 1, false};
  const int top = bit_width(mantissa) - 1 + exponent;  // floor(log2 of the number)
  const int smallest_normal = 1 - layout.bias;
  const int largest = static_cast<int>((layout.first_non_finite - 1) >> layout.mantissa_bits) - layout.bias;
  if (top > largest) return beyond;
  const int unit = (top > smallest_normal ? top : smallest_normal) - layout.mantissa_bits;  // exponent of the last place
  const int shift = unit - exponent;
  Wide kept = 0;
  bool exact = false;
  if (shift <= 0) {
    kept = mantissa << -shift;
    exact = true;
  } else if (shift < 128) {
    kept = mantissa >> shift;
    exact = (kept << shift) == mantissa;
  }
  // The implicit one of a normal number carries into the exponent field, which is why that is one less here.
  const auto field = static_cast<std::uint64_t>(top > smallest_normal ? top - smallest_normal : 0);
  const std::uint64_t bits = (field << layout.mantissa_bits) + static_cast<std::uint64_t>(kept);
  return bits < layout.first_non_finite ? Floor{bits, exact} : beyond;
}

// First magnitude at or above limit * scale, or the first above it.
std::uint64_t first_reaching(const Dyadic& limit, double scale, bool strictly_above, const FormatLayout& layout) noexcept {
  int exponent = 0;
  const double fraction = std::frexp(scale, &exponent);
  const auto significand = static_cast<std::uint64_t>(std::ldexp(fraction, 53));
  const Floor floor = round_down(Wide{limit.mantissa} * significand, limit.exponent + exponent - 53, layout);
  return floor.exact && !strictly_above ? floor.bits : floor.bits + 1;
}

}  // namespace

Cuts make_cuts(DType dtype, DType target, double scale) noexcept {
  const FormatLayout layout = format_layout(dtype);
  Cuts cuts{1, 1, layout.first_non_finite, layout.first_non_finite, layout.first_nan};
  if (target == DType::kUnspecified || format_layout(target).bits == 0) return cuts;
  const FormatLimits limits = format_limits(target);
  const FormatLayout target_layout = format_layout(target);
  const Dyadic smallest_normal{1, 1 - target_layout.bias};
  const double factor = effective_scale(scale);
  cuts.subnormal_below = first_reaching(smallest_normal, factor, false, layout);
  cuts.flushed_below = first_reaching(limits.flush, factor, true, layout);
  cuts.over_from = first_reaching(limits.over, factor, limits.over_is_strict, layout);
  return cuts;
}

}  // namespace scalewatch::cpu
