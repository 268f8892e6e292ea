// The thresholds of a record as limits on an element's bits, exact for every scale. The same as cuda/cpu/cuts.h.
#pragma once

#include "cuda/device/kernels/formats.cuh"

namespace scalewatch::device {

// Limits on the bits of a magnitude (sign cleared).
struct Cuts {
  U64 subnormal_below;  // non-zero and below: subnormal in the target format
  U64 flushed_below;    // non-zero and below: rounds to zero in the target format
  U64 over_from;        // at or above, and finite: rounds to non-finite in the target format
};

// First magnitude of a format at or above the number a * b * 2^exponent, or (strictly) the first above it; at most
// first_non_finite. a and b are below 2^54 and not 0.
SCALEWATCH_DEVICE U64 first_reaching(U64 a, U64 b, I32 exponent, bool strictly_above, const Layout& layout) {
  const U64 high = multiply_high(a, b);
  const U64 low = a * b;
  const I32 top = static_cast<I32>(high != 0 ? 64 + bit_width(high) : bit_width(low)) - 1 + exponent;  // floor(log2)
  const I32 smallest_normal = 1 - layout.bias;
  const I32 largest = static_cast<I32>((layout.first_non_finite - 1) >> layout.mantissa_bits) - layout.bias;
  if (top > largest) return layout.first_non_finite;
  const I32 unit = (top > smallest_normal ? top : smallest_normal) - static_cast<I32>(layout.mantissa_bits);  // last place
  const I32 shift = unit - exponent;
  U64 kept = 0;  // the number in units of the last place, rounded down: below 2^53
  bool exact = false;
  if (shift <= 0) {
    kept = low << -shift;
    exact = true;
  } else if (shift < 64) {
    kept = high << (64 - shift) | low >> shift;
    exact = low << (64 - shift) == 0;
  } else if (shift == 64) {
    kept = high;
    exact = low == 0;
  } else if (shift < 128) {
    kept = high >> (shift - 64);
    exact = low == 0 && high << (128 - shift) == 0;
  }
  // The implicit one of a normal number carries into the exponent field, which is why that is one less here.
  const U64 field = static_cast<U64>(top > smallest_normal ? top - smallest_normal : 0);
  const U64 bits = (field << layout.mantissa_bits) + kept;
  if (bits >= layout.first_non_finite) return layout.first_non_finite;
  return exact && !strictly_above ? bits : bits + 1;
}

// Cut number `which` of 3, in the order of Cuts. An unknown target never matches.
SCALEWATCH_DEVICE U64 make_cut(U8 dtype, U8 target, double scale, U32 which) {
  const Layout layout = layout_of(dtype);
  const Limits limits = limits_of(target);
  if (limits.over == 0) return which == 2 ? layout.first_non_finite : 1;
  // A scale that is not finite and positive is taken as 1.
  const bool usable = scale > 0 && scale < bits_to_double(0x7FF0000000000000U);
  const U64 bits = usable ? double_to_bits(scale) : 0x3FF0000000000000U;
  const U32 field = static_cast<U32>(bits >> 52);
  const U64 fraction = bits & ((U64{1} << 52) - 1);
  const U64 significand = field == 0 ? fraction : fraction | U64{1} << 52;
  const I32 exponent = static_cast<I32>(field == 0 ? 1 : field) - 1075;
  const U64 mantissa = which == 2 ? limits.over : 1;
  const I32 power = which == 0 ? limits.normal : which == 1 ? limits.flush : limits.over_exponent;
  const bool strict = which == 1 || (which == 2 && limits.over_is_strict);
  return first_reaching(mantissa, significand, power + exponent, strict, layout);
}

}  // namespace scalewatch::device
