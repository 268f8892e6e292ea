// Intrinsics that the real header writes in C++ for some processor. Built twice: with the harness's intrinsics, and with the
// real ones as processors before sm_80 have them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "simt/cuda.h"

#include "cuda/device/kernels/intrinsics.cuh"
#include "tests/simt/harness/memory.h"
#include "tests/simt/samples.h"
#include "tests/simt/toys/probes.h"

namespace simt {
namespace {

using namespace scalewatch::device;  // NOLINT(google-build-using-namespace): what is tested
using scalewatch::DType;
using scalewatch::cpu_test::value_of;

TEST(CommonIntrinsics, ValuesOfBfloats) {
  for (U32 pattern = 0; pattern < 0x10000; ++pattern) {
    const U32 other = 0xFFFF - pattern;
    const U32 word = pattern | other << 16;
    ASSERT_TRUE(same(low_bfloat(word), static_cast<float>(value_of(DType::kBf16, pattern)))) << pattern;
    ASSERT_TRUE(same(high_bfloat(word), static_cast<float>(value_of(DType::kBf16, other)))) << other;
  }
}

TEST(CommonIntrinsics, ExtremesOfPairsOfBfloats) {
  for (const U32 a : sample(977)) {
    for (const U32 b : sample(331)) {
      const U32 first = a | b << 16;
      const U32 second = b | a << 16;
      expect_extreme(min_bfloats(first, second) & 0xFFFFU, a, b, DType::kBf16, false);
      expect_extreme(max_bfloats(first, second) & 0xFFFFU, a, b, DType::kBf16, true);
      expect_extreme(min_bfloats(first, second) >> 16, b, a, DType::kBf16, false);
      expect_extreme(max_bfloats(first, second) >> 16, b, a, DType::kBf16, true);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(CommonIntrinsics, TalliesOfBfloatsBelow) {
  for (const U32 cut : {0x0001U, 0x0080U, 0x3F80U, 0x7F7FU, 0x7F80U}) {
    for (U32 pattern = 0; pattern < 0x10000; ++pattern) {
      const U32 other = pattern ^ 0x8123U;
      const long double x = std::fabs(value_of(DType::kBf16, pattern));
      const long double y = std::fabs(value_of(DType::kBf16, other));
      if (!std::isfinite(x) || !std::isfinite(y)) continue;  // not defined
      const long double limit = value_of(DType::kBf16, cut);
      const Tally tally = tally_bfloats_below(0, pattern | other << 16, cut | cut << 16);
      ASSERT_EQ(total_of_bfloats(tally), (x < limit ? 1U : 0U) + (y < limit ? 1U : 0U)) << cut << " " << pattern;
    }
  }
  Tally tally = 0;
  for (U32 i = 0; i < 256; ++i) tally = tally_bfloats_below(tally, i % 2 == 0 ? 0x3F800000U : 0x80000000U, 0x00010001U);
  EXPECT_EQ(total_of_bfloats(tally), 256U + 128U);
}

TEST(CommonIntrinsics, ExtremesOfFloats) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(min_float(1, 2), 1);
  EXPECT_EQ(max_float(1, 2), 2);
  EXPECT_EQ(min_float(nan, 2), 2);
  EXPECT_EQ(min_float(2, nan), 2);
  EXPECT_EQ(max_float(nan, -2), -2);
  EXPECT_EQ(max_float(-2, nan), -2);
  EXPECT_TRUE(std::isnan(min_float(nan, nan)) && std::isnan(max_float(nan, nan)));
  EXPECT_EQ(min_float(-1, 0x1p-149F), -1);
  EXPECT_EQ(max_float(0, 0x1p-149F), 0x1p-149F);
}

TEST(CommonIntrinsics, BitsAndNumbers) {
  EXPECT_EQ(bits_to_float(0x40490FDBU), 0x1.921FB6p1F);
  EXPECT_EQ(float_to_bits(-0.0F), 0x80000000U);
  EXPECT_EQ(bits_to_double(0x3FF8000000000000U), 1.5);
  EXPECT_EQ(double_to_bits(-2), 0xC000000000000000U);
  EXPECT_EQ(population(0xF0F0F001U), 13U);
  for (U32 i = 0; i < 64; ++i) EXPECT_EQ(bit_width(U64{1} << i | (U64{1} << i) / 3), i + 1);
  EXPECT_EQ(bit_width(0), 0U);
  EXPECT_EQ(multiply_high(~U64{0}, ~U64{0}), ~U64{0} - 1);
  EXPECT_EQ(multiply_high(U64{1} << 40, U64{1} << 30), U64{1} << 6);
  EXPECT_EQ(permute_bytes(0xD4C3B2A1U, 0x3210), 0xD4C3B2A1U);
  EXPECT_EQ(permute_bytes(0xD4C3B2A1U, 0x1404), 0xB200A100U);
  EXPECT_EQ(permute_bytes(0xD4C3B2A1U, 0x0736), 0xA100D400U);
  // One rounding: the product alone would round to 1 + 2^-11.
  EXPECT_EQ(fused_multiply_add(0x1.001p0F, 0x1.001p0F, -0x1.002p0F), 0x1p-24F);
  EXPECT_EQ(fused_multiply_add(0x1p-100F, 0x1p-100F, -0.0F), 0.0F);
  EXPECT_EQ(fused_multiply_add(0x1p-75F, 0x1p-74F, 0), 0x1p-149F);
}

TEST(CommonIntrinsics, Warps) {
  std::mt19937 random(1);
  std::vector<U32> values(kThreads);
  for (U32& value : values) value = static_cast<U32>(random());
  DeviceMemory in(4 * kThreads);
  in.fill(values.data());
  DeviceMemory out(U64{4} * kThreads * probes::kWarpRows);
  for (const U32 argument : {0U, 1U, 5U, 16U, 31U}) {
    U64 from = reinterpret_cast<U64>(in.data());
    U64 to = reinterpret_cast<U64>(out.data());
    U32 mask = argument;
    void* params[] = {&from, &to, &mask};
    Options options;
    options.threads = argument == 5 ? Order::kForward : Order::kShuffled;
    ASSERT_EQ(launch(probes::warp_kernel(), {1}, {kThreads}, 0, params, options).fault, "");
    for (U32 thread = 0; thread < kThreads; ++thread) {
      const U32* const warp = values.data() + thread / 32 * 32;
      const U32 lane = thread % 32;
      const auto got = [&](U32 row) { return out.as<U32>()[(thread / 32 * probes::kWarpRows + row) * 32 + lane]; };
      EXPECT_EQ(got(probes::kShuffleXorRow), warp[lane ^ argument]);
      U32 odd = 0;
      for (U32 i = 0; i < 32; ++i) odd |= (warp[i] & 1U) << i;
      EXPECT_EQ(got(probes::kBallotRow), odd);
      EXPECT_EQ(got(probes::kSumRow), std::accumulate(warp, warp + 32, U32{0}));
      EXPECT_EQ(got(probes::kOrRow), std::accumulate(warp, warp + 32, U32{0}, std::bit_or<>()));
      EXPECT_EQ(got(probes::kMinRow), *std::min_element(warp, warp + 32));
      EXPECT_EQ(got(probes::kMaxRow), *std::max_element(warp, warp + 32));
    }
  }
}

}  // namespace
}  // namespace simt
