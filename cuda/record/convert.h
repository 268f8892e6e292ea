// Exact conversions of stored bit patterns to values. For reference and display; the kernels have their own.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "cuda/record/format.h"

namespace scalewatch {

// Value of an encoding of any format up to 32 bits wide. Exact: each of them is a float. NaN payloads are not kept.
[[nodiscard]] inline float decode(DType dtype, std::uint32_t pattern) noexcept {
  const FormatLayout layout = format_layout(dtype);
  if (layout.bits == 0 || layout.bits > 32) return std::numeric_limits<float>::quiet_NaN();
  const std::uint32_t sign_bit = std::uint32_t{1} << (layout.bits - 1);
  const std::uint32_t magnitude = pattern & (sign_bit - 1);
  const float sign = (pattern & sign_bit) != 0 ? -1.0F : 1.0F;
  if (magnitude >= layout.first_nan) return std::numeric_limits<float>::quiet_NaN();
  if (magnitude >= layout.first_non_finite) return sign * std::numeric_limits<float>::infinity();
  const std::uint32_t one = std::uint32_t{1} << layout.mantissa_bits;
  const auto exponent = static_cast<int>(magnitude >> layout.mantissa_bits);
  const std::uint32_t fraction = magnitude & (one - 1);
  const std::uint32_t mantissa = exponent == 0 ? fraction : fraction | one;
  const int power = (exponent == 0 ? 1 : exponent) - layout.bias - layout.mantissa_bits;
  return sign * std::ldexp(static_cast<float>(mantissa), power);
}

[[nodiscard]] inline float fp16_to_float(std::uint16_t pattern) noexcept {
  return decode(DType::kFp16, pattern);
}
[[nodiscard]] inline float bf16_to_float(std::uint16_t pattern) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(pattern) << 16);
}
[[nodiscard]] inline float e4m3fn_to_float(std::uint8_t pattern) noexcept {
  return decode(DType::kE4m3fn, pattern);
}
[[nodiscard]] inline float e5m2_to_float(std::uint8_t pattern) noexcept {
  return decode(DType::kE5m2, pattern);
}

}  // namespace scalewatch
