// The harness gives right kernels their results in every order, and tells each wrong one's fault.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "tests/simt/harness/memory.h"
#include "tests/simt/harness/simt.h"
#include "tests/simt/toys/toys.h"

namespace simt {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

template <class... Args>
Result run(const char* name, Dim3 grid, Dim3 block, const Options& options, Args... args) {
  for (const Kernel& kernel : toys::kernels()) {
    if (std::strcmp(kernel.name, name) != 0) continue;
    void* params[] = {static_cast<void*>(&args)..., nullptr};
    return launch(kernel, grid, block, 0, params, options);
  }
  return {"no such kernel", 0};
}

Options shuffled(std::uint64_t seed, unsigned resident = 1) {
  Options options;
  options.blocks = Order::kShuffled;
  options.threads = Order::kShuffled;
  options.seed = seed;
  options.resident_blocks = resident;
  return options;
}

std::vector<Options> orders() {
  std::vector<Options> all{Options{}, shuffled(2), shuffled(3), shuffled(4, 2), shuffled(5, 5)};
  Options reverse;
  reverse.blocks = Order::kReverse;
  reverse.threads = Order::kReverse;
  all.push_back(reverse);
  return all;
}

TEST(Harness, ARightKernelIsRightInEveryOrder) {
  constexpr unsigned kNumel = 10'001;
  DeviceMemory in(4 * kNumel);
  std::vector<unsigned> values(kNumel);
  std::iota(values.begin(), values.end(), 7U);
  in.fill(values.data());
  const unsigned want = std::accumulate(values.begin(), values.end(), 0U);
  DeviceMemory partial(4 * 9);
  DeviceMemory ticket(4);
  DeviceMemory out(4);
  *ticket.as<unsigned>() = 0;
  for (const Options& options : orders()) {
    for (const unsigned grid : {1U, 2U, 9U}) {
      const Result result = run("sum_last_block", {grid}, {96}, options, in.as<unsigned>(), kNumel, partial.as<unsigned>(),
                                ticket.as<unsigned>(), out.as<unsigned>());
      ASSERT_EQ(result.fault, "");
      EXPECT_EQ(*out.as<unsigned>(), want);
      EXPECT_EQ(*ticket.as<unsigned>(), 0U);
      *out.as<unsigned>() = 0;
    }
  }
}

TEST(Harness, ATicketDrawnTooEarlyDiffersByOrder) {
  DeviceMemory in(4 * 8);
  const std::vector<unsigned> values{1, 2, 3, 4, 5, 6, 7, 8};
  in.fill(values.data());
  DeviceMemory partial(4 * 8);
  DeviceMemory ticket(4);
  DeviceMemory out(4);
  int wrong = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    std::memset(partial.data(), 0, partial.size());
    *ticket.as<unsigned>() = 0;
    const Result result = run("ticket_too_early", {8}, {32}, shuffled(seed, 4), in.as<unsigned>(), partial.as<unsigned>(),
                              ticket.as<unsigned>(), out.as<unsigned>());
    ASSERT_EQ(result.fault, "");
    wrong += *out.as<unsigned>() != 36 ? 1 : 0;
  }
  EXPECT_GT(wrong, 0);
}

TEST(Harness, ADroppedBarrierDiffersByOrder) {
  DeviceMemory out(4 * 256);
  std::vector<std::vector<unsigned>> results;
  for (const Options& options : orders()) {
    ASSERT_EQ(run("dropped_barrier", {1}, {256}, options, out.as<unsigned>()).fault, "");
    results.emplace_back(out.as<unsigned>(), out.as<unsigned>() + 256);
  }
  EXPECT_NE(results[1], results[2]);
  EXPECT_NE(results[0], results.back());
}

TEST(Harness, BarriersThatNotAllReach) {
  DeviceMemory out(4 * 64);
  for (const Options& options : orders()) {
    EXPECT_THAT(run("divergent_barrier", {2}, {64}, options, out.as<unsigned>()).fault,
                AllOf(HasSubstr("barrier"), HasSubstr("toys.cc")));
    EXPECT_THAT(run("different_barriers", {1}, {64}, options, out.as<unsigned>()).fault, HasSubstr("different barriers"));
    EXPECT_THAT(run("deadlock", {1}, {64}, options, out.as<unsigned>()).fault, HasSubstr("deadlock"));
  }
  // After a fault the harness is as good as new.
  EXPECT_EQ(run("dropped_barrier", {1}, {64}, {}, out.as<unsigned>()).fault, "");
}

TEST(Harness, MasksThatDoNotFit) {
  DeviceMemory out(4 * 64);
  const auto shuffle = [&](unsigned mask, int from, unsigned lanes) {
    return run("shuffle_with_mask", {1}, {32}, shuffled(1), mask, from, lanes, out.as<unsigned>()).fault;
  };
  EXPECT_EQ(shuffle(0xFFFFFFFFU, 3, 32), "");
  EXPECT_EQ(out.as<unsigned>()[31], 30U);
  EXPECT_EQ(shuffle(0xFFFFU, 3, 16), "");
  EXPECT_THAT(shuffle(0xFFFFFFFFU, 3, 16), HasSubstr("ended"));
  EXPECT_THAT(shuffle(0xFFFFU, 3, 32), HasSubstr("not in its own mask"));
  EXPECT_THAT(shuffle(0xFFFFU, 20, 16), HasSubstr("reads a lane that the mask does not name"));
  EXPECT_THAT(run("masks_differ", {1}, {32}, shuffled(1), out.as<unsigned>()).fault, HasSubstr("ask"));
  EXPECT_THAT(run("operations_differ", {1}, {32}, shuffled(1), out.as<unsigned>()).fault, HasSubstr("different operations"));
  EXPECT_THAT(run("shuffle_with_mask", {1}, {16}, {}, 0xFFFFFFFFU, 3, 32U, out.as<unsigned>()).fault,
              HasSubstr("do not exist"));
}

TEST(Harness, AccessesOutOfBounds) {
  for (const std::size_t offset : {0, 4, 8, 12}) {
    DeviceMemory at_end(4 * 10, 16, offset);
    DeviceMemory at_start(4 * 10, 4096, 0, Flush::kStart);
    DeviceMemory out(4);
    const auto read = [&](const char* kernel, const DeviceMemory& memory, long long index) {
      return run(kernel, {1}, {1}, {}, memory.as<unsigned>(), index, out.as<unsigned>()).fault;
    };
    EXPECT_EQ(read("read_at", at_end, 9), "");
    EXPECT_EQ(read("checked_read_at", at_end, 0), "");
    EXPECT_THAT(read("checked_read_at", at_end, 10), HasSubstr("out of bounds"));
    EXPECT_THAT(read("checked_read_at", at_end, -1), HasSubstr("out of bounds"));
    EXPECT_THAT(read("read_at", at_end, 14), HasSubstr("no memory of the device"));
    EXPECT_EQ(read("read_at", at_start, 0), "");
    EXPECT_THAT(read("read_at", at_start, -1), HasSubstr("no memory of the device"));
  }
  DeviceMemory flush(4 * 10, 8);
  DeviceMemory out(4);
  EXPECT_THAT(run("read_at", {1}, {1}, {}, flush.as<unsigned>(), 10LL, out.as<unsigned>()).fault,
              HasSubstr("no memory of the device"));
}

TEST(Harness, WritesBesideAnAllocation) {
  void* const memory = allocate(4, 16, 4);
  EXPECT_EQ(run("write_at", {1}, {1}, {}, static_cast<unsigned*>(memory), -1LL).fault, "");
  EXPECT_THAT(release(memory), HasSubstr("before the allocation"));
  EXPECT_THAT(release(memory), HasSubstr("no allocation"));
  DeviceMemory input(4);
  const unsigned one = 1;
  input.fill(&one);
  EXPECT_THAT(run("write_at", {1}, {1}, {}, input.as<unsigned>(), 0LL).fault, HasSubstr("only for reading"));
}

TEST(Harness, LoadsThatMayBeStale) {
  DeviceMemory memory(64);
  const auto read = [&](unsigned blocks, bool constant) {
    return run("stale_read", {blocks}, {1}, {}, memory.as<unsigned>(), constant).fault;
  };
  EXPECT_EQ(read(1, true), "");
  EXPECT_THAT(read(2, true), HasSubstr("constant load"));
  EXPECT_THAT(read(2, false), HasSubstr("stale"));
  EXPECT_EQ(read(1, false), "");
}

TEST(Harness, MisalignedVectors) {
  DeviceMemory in(64);
  DeviceMemory out(4);
  EXPECT_EQ(run("read_vector", {1}, {1}, {}, in.as<char>(), 16LL, out.as<unsigned>()).fault, "");
  EXPECT_THAT(run("read_vector", {1}, {1}, {}, in.as<char>(), 8LL, out.as<unsigned>()).fault, HasSubstr("misaligned"));
}

TEST(Harness, UnwrittenMemoryShowsByItsPoison) {
  DeviceMemory out(4 * 64);
  std::vector<std::vector<unsigned>> results;
  for (const std::uint32_t poison : kPoisons) {
    DeviceMemory scratch(4 * 11, 16, 0, Flush::kEnd, poison);
    ASSERT_EQ(run("unwritten_scratch", {1}, {1}, {}, scratch.as<unsigned>(), 10U, out.as<unsigned>()).fault, "");
    results.emplace_back(1, *out.as<unsigned>());
  }
  EXPECT_NE(results[0], results[1]);
  results.clear();
  for (const std::uint32_t poison : kPoisons) {
    Options options = shuffled(9, 2);
    options.shared_poison = poison;
    ASSERT_EQ(run("unwritten_shared", {3}, {64}, options, out.as<unsigned>()).fault, "");
    results.emplace_back(out.as<unsigned>(), out.as<unsigned>() + 64);
  }
  EXPECT_NE(results[0][7], results[1][7]);
  results[0][7] = results[1][7];
  EXPECT_EQ(results[0], results[1]);
}

TEST(Harness, BlocksThatTakeTurnsKeepTheirSharedMemory) {
  DeviceMemory out(4 * 6);
  std::memset(out.data(), 0, out.size());
  unsigned* to = out.as<unsigned>();
  void* params[] = {&to};
  for (const Kernel& kernel : toys::kernels()) {
    if (std::strcmp(kernel.name, "dynamic_sum") == 0) {
      EXPECT_EQ(launch(kernel, {6}, {40}, 40 * 4, params, shuffled(1, 3)).fault, "");
      EXPECT_THAT(launch(kernel, {1}, {2000}, 40 * 4, params, {}).fault, HasSubstr("too many threads"));
    }
  }
  for (unsigned i = 0; i < 6; ++i) EXPECT_EQ(to[i], 40 * i);
}

TEST(Harness, ALaunchWithoutProgressEnds) {
  DeviceMemory flag(4);
  *flag.as<unsigned>() = 0;
  Options options;
  options.max_steps = 10'000;
  EXPECT_THAT(run("spin", {1}, {2}, options, flag.as<unsigned>()).fault, HasSubstr("no progress"));
}

// The lane that a shuffle reads, as the PTX manual's shfl.sync writes it down; mode: idx, up, down, bfly.
unsigned ptx_source(int mode, unsigned lane, unsigned b, unsigned width) {
  const unsigned segment = 32 - width;
  const unsigned clamp = mode == 1 ? 0 : 31;
  const unsigned highest = (lane & segment) | (clamp & ~segment);
  const unsigned lowest = lane & segment;
  const unsigned bits = b & 31U;
  switch (mode) {
    case 0: {
      const unsigned source = lowest | (bits & ~segment);
      return source <= highest ? source : lane;
    }
    case 1: {
      const int source = static_cast<int>(lane) - static_cast<int>(bits);
      return source >= static_cast<int>(highest) ? static_cast<unsigned>(source) : lane;
    }
    case 2:
      return lane + bits <= highest ? lane + bits : lane;
    default:
      return (lane ^ bits) <= highest ? lane ^ bits : lane;
  }
}

TEST(Harness, WarpOperationsAreAsDefined) {
  DeviceMemory out(4 * 32 * 20);
  const auto x = [](unsigned lane) { return lane * 2654435761U; };
  for (const unsigned mask : {0xFFFFFFFFU, 0xFFFFU, 0x80000001U, 0x12345678U, 0x10U}) {
    for (const unsigned width : {1U, 2U, 8U, 16U, 32U}) {
      for (const unsigned argument : {0U, 1U, 3U, 8U, 17U, 31U}) {
        ASSERT_EQ(run("warp_operations", {1}, {32}, shuffled(argument), mask, static_cast<int>(argument),
                      static_cast<int>(width), out.as<unsigned>())
                      .fault,
                  "");
        std::vector<unsigned> lanes;
        for (unsigned lane = 0; lane < 32; ++lane) {
          if ((mask >> lane & 1U) != 0) lanes.push_back(lane);
        }
        unsigned ballot = 0;
        unsigned sum = 0;
        unsigned all_bits = ~0U;
        unsigned any_bits = 0;
        unsigned odd_bits = 0;
        std::vector<unsigned> values;
        std::vector<int> numbers;
        for (const unsigned lane : lanes) {
          ballot |= (x(lane) >> 31) << lane;
          sum += x(lane);
          all_bits &= x(lane) | 1U;
          any_bits |= x(lane);
          odd_bits ^= x(lane);
          values.push_back(x(lane));
          numbers.push_back(static_cast<int>(x(lane)));
        }
        for (const unsigned lane : lanes) {
          unsigned equal = 0;
          for (const unsigned other : lanes) equal |= (other % 5 == lane % 5 ? 1U : 0U) << other;
          const bool alone = lanes.size() == 1;
          const std::vector<unsigned> want{ballot,
                                           0,
                                           1,
                                           equal,
                                           mask,
                                           1,
                                           alone ? mask : 0,
                                           sum,
                                           *std::min_element(values.begin(), values.end()),
                                           *std::max_element(values.begin(), values.end()),
                                           static_cast<unsigned>(*std::min_element(numbers.begin(), numbers.end())),
                                           static_cast<unsigned>(*std::max_element(numbers.begin(), numbers.end())),
                                           all_bits,
                                           any_bits,
                                           odd_bits};
          for (std::size_t row = 0; row < want.size(); ++row) ASSERT_EQ(out.as<unsigned>()[32 * row + lane], want[row]) << row;
          if (mask != 0xFFFFFFFFU) continue;
          for (int mode = 0; mode < 4; ++mode) {
            const unsigned got = out.as<unsigned>()[32 * (15 + static_cast<unsigned>(mode)) + lane];
            ASSERT_EQ(got, x(ptx_source(mode, lane, argument, width)))
                << mode << " " << lane << " " << argument << " " << width;
          }
          const unsigned source = ptx_source(3, lane, argument, width);
          ASSERT_EQ(out.as<unsigned>()[32 * 19 + lane], static_cast<unsigned>(x(source) * 0x1'0000'0001ULL >> 32));
        }
      }
    }
  }
}

TEST(Harness, BarriersCountAndThreadsHaveThreeDimensions) {
  DeviceMemory out(4 * 3 * 64);
  for (const unsigned limit : {0U, 10U, 64U}) {
    ASSERT_EQ(run("barrier_votes", {1}, {64}, shuffled(1), limit, out.as<int>()).fault, "");
    for (int i = 0; i < 64; ++i) {
      EXPECT_EQ(out.as<int>()[3 * i], static_cast<int>(limit));
      EXPECT_EQ(out.as<int>()[3 * i + 1], limit == 64 ? 1 : 0);
      EXPECT_EQ(out.as<int>()[3 * i + 2], limit != 0 ? 1 : 0);
    }
  }
  DeviceMemory numbers(4 * 24 * 12);
  ASSERT_EQ(run("three_dimensions", {2, 3, 4}, {3, 2, 2}, shuffled(1), numbers.as<unsigned>()).fault, "");
  for (unsigned i = 0; i < 24 * 12; ++i) EXPECT_EQ(numbers.as<unsigned>()[i], i / 12 * 1000 + i % 12);
}

}  // namespace
}  // namespace simt
