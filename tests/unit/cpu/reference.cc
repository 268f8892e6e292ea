#include "tests/unit/cpu/reference.h"

#include <hwy/targets.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "cuda/cpu/kernel.h"
#include "cuda/cpu/measure.h"

namespace scalewatch::cpu_test {
namespace {

// Smallest normal, flush threshold and over threshold.
struct Thresholds {
  long double normal;
  long double flush;
  long double over;
};

Thresholds thresholds_of(DType target) {
  const auto two_to = [](int exponent) { return std::ldexp(1.0L, exponent); };
  switch (target) {
    case DType::kFp64:
      return {two_to(-1022), two_to(-1075), two_to(1024) - two_to(970)};
    case DType::kFp32:
      return {two_to(-126), two_to(-150), two_to(128) - two_to(103)};
    case DType::kFp16:
      return {two_to(-14), two_to(-25), 65520};
    case DType::kBf16:
      return {two_to(-126), two_to(-134), two_to(128) - two_to(119)};
    case DType::kE4m3fn:
      return {two_to(-6), two_to(-10), std::nextafter(464.0L, 500.0L)};
    case DType::kE5m2:
      return {two_to(-14), two_to(-17), 61440};
    default:
      return {0, 0, std::numeric_limits<long double>::infinity()};
  }
}

long double small_float(std::uint64_t pattern, int exponent_bits, int mantissa_bits, bool has_infinity) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const auto exponent = static_cast<int>((pattern >> mantissa_bits) & ((1U << exponent_bits) - 1));
  const auto fraction = static_cast<int>(pattern & ((1U << mantissa_bits) - 1));
  const long double sign = ((pattern >> (exponent_bits + mantissa_bits)) & 1U) != 0 ? -1 : 1;
  const int top = (1 << exponent_bits) - 1;
  if (has_infinity && exponent == top) {
    return fraction != 0 ? std::numeric_limits<long double>::quiet_NaN() : sign * std::numeric_limits<long double>::infinity();
  }
  if (!has_infinity && exponent == top && fraction == (1 << mantissa_bits) - 1) {
    return std::numeric_limits<long double>::quiet_NaN();
  }
  const long double part = static_cast<long double>(fraction) / (1 << mantissa_bits);
  return sign * (exponent == 0 ? std::ldexp(part, 1 - bias) : std::ldexp(1 + part, exponent - bias));
}

}  // namespace

std::string name_of(DType dtype) {
  switch (dtype) {
    case DType::kFp64:
      return "fp64";
    case DType::kFp32:
      return "fp32";
    case DType::kFp16:
      return "fp16";
    case DType::kBf16:
      return "bf16";
    case DType::kE4m3fn:
      return "e4m3fn";
    case DType::kE5m2:
      return "e5m2";
    default:
      return "unspecified";
  }
}

std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::kFp64:
      return 8;
    case DType::kFp32:
      return 4;
    case DType::kFp16:
    case DType::kBf16:
      return 2;
    default:
      return 1;
  }
}

void append(Bytes& bytes, DType dtype, std::uint64_t pattern) {
  for (std::size_t i = 0; i < size_of(dtype); ++i) bytes.push_back(static_cast<unsigned char>(pattern >> (8 * i)));
}

Bytes pack(DType dtype, const std::vector<std::uint64_t>& patterns) {
  Bytes bytes;
  for (const std::uint64_t pattern : patterns) append(bytes, dtype, pattern);
  return bytes;
}

long double value_of(DType dtype, std::uint64_t pattern) {
  switch (dtype) {
    case DType::kFp64:
      return std::bit_cast<double>(pattern);
    case DType::kFp32:
      return std::bit_cast<float>(static_cast<std::uint32_t>(pattern));
    case DType::kFp16:
      return small_float(pattern, 5, 10, true);
    case DType::kBf16:
      return small_float(pattern, 8, 7, true);
    case DType::kE4m3fn:
      return small_float(pattern, 4, 3, false);
    default:
      return small_float(pattern, 5, 2, true);
  }
}

std::uint64_t pattern_of(DType dtype, long double x) {
  const std::uint64_t sign = std::uint64_t{1} << (8 * size_of(dtype) - 1);
  std::uint64_t low = 0;
  std::uint64_t high = sign - 1;
  while (low < high) {  // the largest magnitude not above |x|; NaN and infinity compare as too large
    const std::uint64_t middle = low + (high - low + 1) / 2;
    if (value_of(dtype, middle) <= std::fabs(x)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return x < 0 ? low | sign : low;
}

Reference reference(const void* data, DType dtype, std::uint64_t numel, DType target, double scale) {
  Reference result;
  Record& record = result.record;
  record.numel = numel;
  const Thresholds limits = thresholds_of(target);
  long double sum = 0;
  long double sum_sq = 0;
  long double min = std::numeric_limits<long double>::infinity();
  long double max = -min;
  long double absmin = min;
  const auto* bytes = static_cast<const unsigned char*>(data);
  for (std::uint64_t i = 0; i < numel; ++i) {
    std::uint64_t pattern = 0;
    std::memcpy(&pattern, bytes + i * size_of(dtype), size_of(dtype));
    const long double x = value_of(dtype, pattern);
    if (std::isnan(x)) {
      ++record.nan;
      continue;
    }
    if (std::isinf(x)) {
      ++(x > 0 ? record.pos_inf : record.neg_inf);
      continue;
    }
    const long double magnitude = std::fabs(x);
    min = std::fmin(min, x);
    max = std::fmax(max, x);
    sum += x;
    sum_sq += x * x;
    result.sum_of_magnitudes += magnitude;
    if (x == 0) {
      ++record.zero;
      continue;
    }
    absmin = std::fmin(absmin, magnitude);
    if (target == DType::kUnspecified) continue;
    // Exact: thresholds have at most 54 significant bits, and the product with a power of two or a short scale stays in 64.
    if (magnitude < limits.normal * static_cast<long double>(scale)) ++record.subnormal;
    if (magnitude <= limits.flush * static_cast<long double>(scale)) ++record.flushed;
    const bool strict = target == DType::kE4m3fn;
    const long double over = strict ? 464.0L : limits.over;
    if (strict ? magnitude > over * scale : magnitude >= over * scale) ++record.over;
  }
  constexpr long double kMax = std::numeric_limits<double>::max();
  record.sum = static_cast<double>(std::fmin(std::fmax(sum, -kMax), kMax));
  record.sum_sq = static_cast<double>(std::fmin(sum_sq, kMax));
  const auto narrow = [](long double x) {
    if (x == 0) return 0.0F;
    const long double size =
        std::fmin(std::fmax(std::fabs(x), 0x1p-149L), static_cast<long double>(std::numeric_limits<float>::max()));
    return static_cast<float>(std::copysign(size, x));
  };
  if (max >= min) {
    record.min = narrow(min);
    record.max = narrow(max);
  }
  if (std::isfinite(absmin)) record.absmin_nonzero = narrow(absmin);
  return result;
}

void expect_matches(const Record& got, const Reference& want, const std::string& where) {
  SCOPED_TRACE(where);
  const Record& expected = want.record;
  EXPECT_EQ(got.numel, expected.numel);
  EXPECT_EQ(got.nan, expected.nan);
  EXPECT_EQ(got.pos_inf, expected.pos_inf);
  EXPECT_EQ(got.neg_inf, expected.neg_inf);
  EXPECT_EQ(got.zero, expected.zero);
  EXPECT_EQ(got.subnormal, expected.subnormal);
  EXPECT_EQ(got.flushed, expected.flushed);
  EXPECT_EQ(got.over, expected.over);
  const auto same = [](float a, float b) { return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b); };
  EXPECT_TRUE(same(got.min, expected.min) || (std::isnan(got.min) && std::isnan(expected.min)))
      << got.min << " " << expected.min;
  EXPECT_TRUE(same(got.max, expected.max) || (std::isnan(got.max) && std::isnan(expected.max)))
      << got.max << " " << expected.max;
  EXPECT_TRUE(same(got.absmin_nonzero, expected.absmin_nonzero) ||
              (std::isnan(got.absmin_nonzero) && std::isnan(expected.absmin_nonzero)))
      << got.absmin_nonzero << " " << expected.absmin_nonzero;
  const long double sum_error = std::fabs(static_cast<long double>(got.sum) - expected.sum);
  EXPECT_LE(sum_error, 1e-6L * want.sum_of_magnitudes) << got.sum << " " << expected.sum;
  const long double sum_sq_error = std::fabs(static_cast<long double>(got.sum_sq) - expected.sum_sq);
  // Squares of tiny fp64 elements are subnormal doubles: each may lose half a last place there.
  const long double lost = std::ldexp(static_cast<long double>(expected.numel), -1074);
  EXPECT_LE(sum_sq_error, 1e-6L * expected.sum_sq + lost) << got.sum_sq << " " << expected.sum_sq;
}

void expect_identical(const Record& got, const Record& want, const std::string& where) {
  // Field by field: padding has no value.
  const auto fields = [](const Record& r) {
    return std::vector<std::uint64_t>{r.numel,
                                      r.nan,
                                      r.pos_inf,
                                      r.neg_inf,
                                      r.zero,
                                      r.subnormal,
                                      r.flushed,
                                      r.over,
                                      std::bit_cast<std::uint64_t>(r.sum),
                                      std::bit_cast<std::uint64_t>(r.sum_sq),
                                      std::bit_cast<std::uint32_t>(r.min),
                                      std::bit_cast<std::uint32_t>(r.max),
                                      std::bit_cast<std::uint32_t>(r.absmin_nonzero)};
  };
  EXPECT_EQ(fields(got), fields(want)) << where;
}

std::vector<std::int64_t> instruction_sets() {
  // Highway's portable target runs everywhere.
  const std::int64_t usable = cpu::compiled_targets() & (hwy::SupportedTargets() | HWY_EMU128);
  std::vector<std::int64_t> sets;
  for (std::int64_t rest = usable; rest != 0; rest &= rest - 1) sets.push_back(rest & -rest);
  return sets;
}

void OnEachInstructionSet::SetUp() {
  hwy::SetSupportedTargetsForTest(GetParam());
  ASSERT_STREQ(instruction_set(), hwy::TargetName(GetParam()));
}

void OnEachInstructionSet::TearDown() {
  hwy::SetSupportedTargetsForTest(0);
}

std::string name_of_target(const ::testing::TestParamInfo<std::int64_t>& target) {
  return hwy::TargetName(target.param);
}

}  // namespace scalewatch::cpu_test
