// Packed 16-bit numbers in plain C++, for the harness's intrinsics. Words hold two of them, the lower one first.
#pragma once

#include <bit>
#include <cstdint>

namespace simt {

// Value of an fp16's bits. Exact; NaN stays NaN.
inline float half_value(std::uint32_t bits) {
  const std::uint32_t magnitude = bits & 0x7FFFU;
  const std::uint32_t sign = (bits & 0x8000U) << 16;
  if (magnitude >= 0x7C00U) return std::bit_cast<float>(sign | 0x7F800000U | (magnitude & 0x3FFU) << 13);
  // Its fields in float's places are the value by 2^112 too small, whether normal or subnormal.
  const float value = std::bit_cast<float>(magnitude << 13) * 0x1p112F;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
}

// Bits of the fp16 nearest to a float, ties to even; infinity from 65520 on. NaN becomes 0x7FFF.
inline std::uint32_t half_nearest(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return 0x7FFFU;
  if (magnitude >= 0x477FF000U) return sign | 0x7C00U;  // 65520
  if (magnitude < 0x38800000U) {                        // 2^-14: adding 2^-1 puts the last place at 2^-24
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3F000000U);
  }
  const std::uint32_t rounded = magnitude + 0xFFFU + (magnitude >> 13 & 1U);
  return sign | ((rounded - 0x38000000U) >> 13);
}

struct Fp16 {
  static constexpr std::uint32_t kInfinity = 0x7C00U;
};
struct Bf16 {
  static constexpr std::uint32_t kInfinity = 0x7F80U;
};

// Of two 16-bit numbers the smaller (kLargest: the larger); the other where one is NaN, 0x7FFF where both are; -0 < +0.
template <class Format, bool kLargest>
std::uint32_t extreme(std::uint32_t a, std::uint32_t b) {
  const bool a_nan = (a & 0x7FFFU) > Format::kInfinity;
  const bool b_nan = (b & 0x7FFFU) > Format::kInfinity;
  if (a_nan) return b_nan ? 0x7FFFU : b;
  if (b_nan) return a;
  const auto rank = [](std::uint32_t x) { return (x & 0x8000U) != 0 ? 0xFFFFU - x : x + 0x8000U; };
  return (rank(a) < rank(b)) != kLargest ? a : b;
}
template <class Format, bool kLargest>
std::uint32_t extreme_pair(std::uint32_t a, std::uint32_t b) {
  return extreme<Format, kLargest>(a & 0xFFFFU, b & 0xFFFFU) | extreme<Format, kLargest>(a >> 16, b >> 16) << 16;
}

}  // namespace simt
