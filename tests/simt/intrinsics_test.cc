// The harness's intrinsics that stand for PTX, each against the definition that is written beside the real one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "cuda/device/kernels/intrinsics.cuh"
#include "tests/simt/harness/memory.h"
#include "tests/simt/samples.h"
#include "tests/simt/toys/probes.h"

namespace simt {
namespace {

using ::testing::HasSubstr;
using namespace scalewatch::device;  // NOLINT(google-build-using-namespace): what is tested
using scalewatch::DType;
using scalewatch::cpu_test::pattern_of;
using scalewatch::cpu_test::value_of;

TEST(Intrinsics, ValuesOfHalves) {
  for (U32 pattern = 0; pattern < 0x10000; ++pattern) {
    const U32 other = 0xFFFF - pattern;
    const U32 word = pattern | other << 16;
    ASSERT_TRUE(same(low_half(word), static_cast<float>(value_of(DType::kFp16, pattern)))) << pattern;
    ASSERT_TRUE(same(high_half(word), static_cast<float>(value_of(DType::kFp16, other)))) << other;
    const float value = low_half(word);
    if (std::isnan(value)) continue;
    ASSERT_EQ(half_bits(value), pattern);
  }
}

// cvt.rn: the nearest fp16, the even one of two as near; infinity from half a last place beyond the largest on.
TEST(Intrinsics, NearestHalf) {
  std::mt19937 random(3);
  std::vector<float> values{65504,           65519.996F, 65520,  65536,      1e30F,      0x1p-25F,
                            0x1.000002p-25F, 0x1p-26F,   1e-40F, 0x1.8p-24F, 0x1.002p0F, 0x1.006p0F};
  int ignored = 0;
  for (int i = 0; i < 50'000; ++i) {
    const float x = std::bit_cast<float>(static_cast<U32>(random()));
    if (!std::isnan(x)) values.push_back(i % 2 == 0 || std::isinf(x) ? x : std::ldexp(std::frexp(x, &ignored), i % 50 - 30));
  }
  for (const float x : values) {
    for (const float value : {x, -x}) {
      const auto below = static_cast<U32>(pattern_of(DType::kFp16, std::min(std::fabs(value), 65504.0F)));
      const auto low = value_of(DType::kFp16, below);
      const auto high = below == 0x7BFF ? 65536.0L : value_of(DType::kFp16, below + 1);
      const long double to_low = std::fabs(static_cast<long double>(value)) - low;
      const long double to_high = high - std::fabs(static_cast<long double>(value));
      const U32 want = to_low < to_high || (to_low == to_high && below % 2 == 0) ? below : below + 1;
      ASSERT_EQ(half_bits(value), want | (std::signbit(value) ? 0x8000U : 0U)) << value;
    }
  }
}

TEST(Intrinsics, ExtremesOfPairs) {
  const std::vector<U32> some = sample(977);
  for (const U32 a : some) {
    for (const U32 b : sample(331)) {
      const U32 first = a | b << 16;
      const U32 second = b | a << 16;
      expect_extreme(min_halves(first, second) & 0xFFFFU, a, b, DType::kFp16, false);
      expect_extreme(max_halves(first, second) & 0xFFFFU, a, b, DType::kFp16, true);
      expect_extreme(min_halves(first, second) >> 16, b, a, DType::kFp16, false);
      expect_extreme(max_halves(first, second) >> 16, b, a, DType::kFp16, true);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Intrinsics, TalliesOfMagnitudesBelow) {
  for (const U32 cut : {0x0001U, 0x0002U, 0x0400U, 0x3C00U, 0x7BFFU, 0x7C00U}) {
    for (U32 pattern = 0; pattern < 0x10000; ++pattern) {
      const U32 other = pattern ^ 0x8123U;
      const auto below = [&](U32 bits) {
        return std::fabs(value_of(DType::kFp16, bits)) < value_of(DType::kFp16, cut) ? 1U : 0U;
      };
      const Tally tally = tally_halves_below(0, pattern | other << 16, cut | cut << 16);
      ASSERT_EQ(total_of_halves(tally), below(pattern) + below(other)) << cut << " " << pattern;
    }
  }
  Tally tally = 0;
  for (U32 i = 0; i < 256; ++i) tally = tally_halves_below(tally, i % 2 == 0 ? 0x3C000000U : 0, 0x00010001U);
  EXPECT_EQ(total_of_halves(tally), 256U + 128U);
}

// Which of two zeros is left open: here it changes, so that nothing can depend on it.
TEST(Intrinsics, ZerosOfEitherSign) {
  EXPECT_NE(std::signbit(min_float(0.0F, -0.0F)), std::signbit(min_float(0.0F, -0.0F)));
}

const Kernel& probe(const char* name) {
  const auto all = probes::kernels();
  return *std::find_if(all.begin(), all.end(), [name](const Kernel& kernel) { return std::strcmp(kernel.name, name) == 0; });
}

template <class... Args>
std::string run(const char* name, unsigned blocks, unsigned threads, Order order, Args... args) {
  void* params[] = {static_cast<void*>(&args)...};
  Options options;
  options.threads = order;
  options.blocks = order;
  options.resident_blocks = order == Order::kShuffled ? 3 : 1;
  return launch(probe(name), {blocks}, {threads}, 0, params, options).fault;
}

U64 address_of(const DeviceMemory& memory) {
  return reinterpret_cast<U64>(memory.data());
}

TEST(Intrinsics, Memory) {
  constexpr U32 kBlocks = 5;
  std::vector<U32> values(U64{4} * kBlocks);
  std::iota(values.begin(), values.end(), 100U);
  DeviceMemory in(16 * kBlocks);
  in.fill(values.data());
  DeviceMemory out(16 * kBlocks);
  DeviceMemory total(8);
  DeviceMemory ticket(4);
  DeviceMemory tickets(4 * kBlocks);
  DeviceMemory neighbours(U64{4} * kBlocks * kThreads);
  for (const Order order : {Order::kForward, Order::kReverse, Order::kShuffled}) {
    *total.as<U64>() = 0xFFFFFFFFU;
    *ticket.as<U32>() = 0;
    ASSERT_EQ(run("memory_probe", kBlocks, kThreads, order, address_of(in), address_of(out), address_of(total),
                  address_of(ticket), address_of(tickets), address_of(neighbours)),
              "");
    EXPECT_EQ(std::memcmp(out.data(), values.data(), 16 * kBlocks), 0);
    EXPECT_EQ(*total.as<U64>(), 0xFFFFFFFFU + U64{kBlocks} * (5 + kThreads * (kThreads - 1) / 2));
    EXPECT_EQ(*ticket.as<U32>(), 0U);  // wraps after the last
    std::vector<U32> drawn(tickets.as<U32>(), tickets.as<U32>() + kBlocks);
    std::sort(drawn.begin(), drawn.end());
    EXPECT_EQ(drawn, (std::vector<U32>{0, 1, 2, 3, 4}));
    for (U32 i = 0; i < kBlocks * kThreads; ++i) ASSERT_EQ(neighbours.as<U32>()[i], (i + 1) % kThreads * 3);
  }
}

TEST(Intrinsics, AddressesThatDoNotSuit) {
  constexpr U32 kBytes[] = {1, 2, 4, 8, 16, 16, 8};
  constexpr U32 kAligned[] = {1, 2, 4, 8, 16, 16, 8};
  DeviceMemory memory(64, 16);
  for (U32 which = 0; which < 7; ++which) {
    const auto read = [&](U64 offset) { return run("read_probe", 1, 1, Order::kForward, address_of(memory) + offset, which); };
    EXPECT_EQ(read(0), "");
    EXPECT_EQ(read(64 - kBytes[which]), "");
    EXPECT_THAT(read(64), HasSubstr("out of bounds"));
    EXPECT_THAT(read(U64{0} - kBytes[which]), HasSubstr("out of bounds"));
    if (which == 0) continue;
    EXPECT_THAT(read(kAligned[which] / 2), HasSubstr("misaligned"));
  }
}

}  // namespace
}  // namespace simt
