// The element types: layout of their bits, and how the fast pass reads them.
#pragma once

#include "cuda/device/abi.h"
#include "cuda/device/kernels/intrinsics.cuh"

namespace scalewatch::device {

// Layout of a format's bits. The encodings of magnitude from first_non_finite on are infinity and NaN.
struct Layout {
  U32 mantissa_bits;
  I32 bias;
  U64 first_non_finite;
};

SCALEWATCH_DEVICE Layout layout_of(U8 dtype) {
  switch (dtype) {
    case kFp64:
      return {52, 1023, 0x7FF0000000000000U};
    case kFp32:
      return {23, 127, 0x7F800000U};
    case kFp16:
      return {10, 15, 0x7C00U};
    case kBf16:
      return {7, 127, 0x7F80U};
    case kE4m3fn:
      return {3, 7, 0x7FU};
    case kE5m2:
      return {2, 15, 0x7CU};
    default:
      return {0, 0, 0};
  }
}

// Limits of a target format as exact numbers mantissa * 2^exponent. Subnormal: below 2^normal. Flushed: at or below 2^flush.
// Over: from over * 2^over_exponent on, or (strict) only above it.
struct Limits {
  I32 normal;
  I32 flush;
  U64 over;
  I32 over_exponent;
  bool over_is_strict;
};

SCALEWATCH_DEVICE Limits limits_of(U8 target) {
  switch (target) {
    case kFp64:
      return {-1022, -1075, (U64{1} << 54) - 1, 970, false};
    case kFp32:
      return {-126, -150, (1U << 25) - 1, 103, false};
    case kFp16:
      return {-14, -25, 65520, 0, false};
    case kBf16:
      return {-126, -134, (1U << 9) - 1, 119, false};
    case kE4m3fn:
      return {-6, -10, 464, 0, true};
    case kE5m2:
      return {-14, -17, 61440, 0, false};
    default:
      return {0, 0, 0, 0, false};
  }
}

// A type's traits. Pattern holds an element's bits; value() is exact, of a finite pattern.
//
// Types of the fast pass have a view of their elements. Where a magnitude reaches kFastFrom, float holds their sums, or the sum
// of squares is infinite. Types of at most 16 bits are read as packed pairs of a 16-bit format, which is the type itself or one
// that has the same values times 1 / kViewFactor. view() gives the 16 bits of a pattern, pair() pair number i of a loaded word.

struct Fp64 {
  using Pattern = U64;
  static constexpr U32 kBytes = 8;
  static constexpr U32 kMantissaBits = 52;
  static constexpr I32 kBias = 1023;
  static constexpr U64 kSign = U64{1} << 63;
  static constexpr U64 kFirstNonFinite = 0x7FF0000000000000U;
  static constexpr U64 kFirstNan = 0x7FF0000000000001U;
  static constexpr bool kFast = false;

  static SCALEWATCH_DEVICE double value(U64 pattern) { return bits_to_double(pattern); }
};

struct Fp32 {
  using Pattern = U32;
  static constexpr U32 kBytes = 4;
  static constexpr U32 kMantissaBits = 23;
  static constexpr I32 kBias = 127;
  static constexpr U32 kSign = 1U << 31;
  static constexpr U32 kFirstNonFinite = 0x7F800000U;
  static constexpr U32 kFirstNan = 0x7F800001U;
  static constexpr bool kFast = true;
  static constexpr bool kPacked = false;
  static constexpr float kFastFrom = 0x1p-50F;  // what float loses of a chunk's squares is under 2^-30 of their sum
  static constexpr float kViewFactor = 1;

  static SCALEWATCH_DEVICE float value(U32 pattern) { return bits_to_float(pattern); }
  static SCALEWATCH_DEVICE float view_value(U32 pattern) { return bits_to_float(pattern); }
};

// Operations on packed fp16, for the types that are seen as such.
struct Halves {
  static SCALEWATCH_DEVICE float low(U32 pair) { return low_half(pair); }
  static SCALEWATCH_DEVICE float high(U32 pair) { return high_half(pair); }
  static SCALEWATCH_DEVICE U32 smaller(U32 a, U32 b) { return min_halves(a, b); }
  static SCALEWATCH_DEVICE U32 larger(U32 a, U32 b) { return max_halves(a, b); }
  static SCALEWATCH_DEVICE Tally tally_below(Tally tally, U32 pair, U32 cut) { return tally_halves_below(tally, pair, cut); }
  static SCALEWATCH_DEVICE U32 total(Tally tally) { return total_of_halves(tally); }
};

struct Fp16 : Halves {
  using Pattern = U16;
  static constexpr U32 kBytes = 2;
  static constexpr U32 kMantissaBits = 10;
  static constexpr I32 kBias = 15;
  static constexpr U32 kSign = 1U << 15;
  static constexpr U32 kFirstNonFinite = 0x7C00U;
  static constexpr U32 kFirstNan = 0x7C01U;
  static constexpr bool kFast = true;
  static constexpr bool kPacked = true;
  static constexpr float kFastFrom = 0;  // squares of fp16 are normal floats
  static constexpr float kViewFactor = 1;
  static constexpr U32 kPairs = 1;

  static SCALEWATCH_DEVICE float value(U32 pattern) { return low_half(pattern); }
  static SCALEWATCH_DEVICE U32 view(U32 pattern) { return pattern; }
  static SCALEWATCH_DEVICE U32 pair(U32 word, U32) { return word; }
};

// The upper half of a float.
struct Bf16 {
  using Pattern = U16;
  static constexpr U32 kBytes = 2;
  static constexpr U32 kMantissaBits = 7;
  static constexpr I32 kBias = 127;
  static constexpr U32 kSign = 1U << 15;
  static constexpr U32 kFirstNonFinite = 0x7F80U;
  static constexpr U32 kFirstNan = 0x7F81U;
  static constexpr bool kFast = true;
  static constexpr bool kPacked = true;
  static constexpr float kFastFrom = Fp32::kFastFrom;
  static constexpr float kViewFactor = 1;
  static constexpr U32 kPairs = 1;

  static SCALEWATCH_DEVICE float value(U32 pattern) { return low_bfloat(pattern); }
  static SCALEWATCH_DEVICE U32 view(U32 pattern) { return pattern; }
  static SCALEWATCH_DEVICE U32 pair(U32 word, U32) { return word; }
  static SCALEWATCH_DEVICE float low(U32 pair) { return low_bfloat(pair); }
  static SCALEWATCH_DEVICE float high(U32 pair) { return high_bfloat(pair); }
  static SCALEWATCH_DEVICE U32 smaller(U32 a, U32 b) { return min_bfloats(a, b); }
  static SCALEWATCH_DEVICE U32 larger(U32 a, U32 b) { return max_bfloats(a, b); }
  static SCALEWATCH_DEVICE Tally tally_below(Tally tally, U32 pair, U32 cut) { return tally_bfloats_below(tally, pair, cut); }
  static SCALEWATCH_DEVICE U32 total(Tally tally) { return total_of_bfloats(tally); }
};

// The upper byte of an fp16.
struct E5m2 : Halves {
  using Pattern = U8;
  static constexpr U32 kBytes = 1;
  static constexpr U32 kMantissaBits = 2;
  static constexpr I32 kBias = 15;
  static constexpr U32 kSign = 1U << 7;
  static constexpr U32 kFirstNonFinite = 0x7CU;
  static constexpr U32 kFirstNan = 0x7DU;
  static constexpr bool kFast = true;
  static constexpr bool kPacked = true;
  static constexpr float kFastFrom = 0;
  static constexpr float kViewFactor = 1;
  static constexpr U32 kPairs = 2;

  static SCALEWATCH_DEVICE U32 view(U32 pattern) { return pattern << 8; }
  static SCALEWATCH_DEVICE float value(U32 pattern) { return low_half(view(pattern)); }
  static SCALEWATCH_DEVICE U32 pair(U32 word, U32 i) { return permute_bytes(word, i == 0 ? 0x1404 : 0x3424); }
};

// Seen as 2^-8 times the value: an fp16 with another exponent bias, subnormals included. Its NaN is seen as 1.875.
struct E4m3fn : Halves {
  using Pattern = U8;
  static constexpr U32 kBytes = 1;
  static constexpr U32 kMantissaBits = 3;
  static constexpr I32 kBias = 7;
  static constexpr U32 kSign = 1U << 7;
  static constexpr U32 kFirstNonFinite = 0x7FU;
  static constexpr U32 kFirstNan = 0x7FU;
  static constexpr bool kFast = true;
  static constexpr bool kPacked = true;
  static constexpr float kFastFrom = 0;
  static constexpr float kViewFactor = 256;
  static constexpr U32 kPairs = 2;

  static SCALEWATCH_DEVICE U32 spread(U32 upper_bytes) {
    return (upper_bytes & 0x80008000U) | (upper_bytes >> 1 & 0x3FFF3FFFU);
  }
  static SCALEWATCH_DEVICE U32 view(U32 pattern) { return spread(pattern << 8); }
  static SCALEWATCH_DEVICE float value(U32 pattern) { return low_half(view(pattern)) * kViewFactor; }
  static SCALEWATCH_DEVICE U32 pair(U32 word, U32 i) { return spread(permute_bytes(word, i == 0 ? 0x1404 : 0x3424)); }
};

// Calls body with the traits of a known dtype.
template <class Body>
SCALEWATCH_DEVICE void with_type(U8 dtype, const Body& body) {
  switch (dtype) {
    case kFp64:
      return body(Fp64());
    case kFp32:
      return body(Fp32());
    case kFp16:
      return body(Fp16());
    case kBf16:
      return body(Bf16());
    case kE4m3fn:
      return body(E4m3fn());
    case kE5m2:
      return body(E5m2());
    default:
      return;
  }
}

}  // namespace scalewatch::device
