// Threads that help with large tensors change no bit of a result.
#include "cuda/cpu/workers.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <thread>

#include "cuda/cpu/measure.h"
#include "cuda/cpu/parts.h"
#include "tests/unit/cpu/reference.h"

namespace scalewatch::cpu_test {
namespace {

// Elements of all magnitudes below 2, and one NaN.
Bytes hard_bytes(DType dtype, std::uint64_t numel) {
  std::mt19937_64 random(11);
  Bytes bytes(numel * size_of(dtype));
  for (std::size_t i = 0; i + 8 <= bytes.size(); i += 8) {
    const std::uint64_t word = random() & 0xBFBF'BFBF'BFBF'BFBFU;
    std::memcpy(bytes.data() + i, &word, sizeof word);
  }
  const std::uint64_t nan = (std::uint64_t{1} << (8 * size_of(dtype) - 1)) - 1;
  std::memcpy(bytes.data() + numel / 3 * size_of(dtype), &nan, size_of(dtype));
  return bytes;
}

TEST(Workers, ResultsAreTheSameBitsForAnyNumberOfThreads) {
  constexpr std::uint64_t kPart = cpu::kSmallestPart;
  Workers two(2);
  Workers three(3);
  Workers five(5);
  for (const DType dtype : kDTypes) {
    const std::uint64_t worth = cpu::kWorthThreads / size_of(dtype);
    const Bytes bytes = hard_bytes(dtype, worth + 3 * kPart + 1);
    for (const std::uint64_t numel : {kPart - 1, kPart, kPart + 1, worth - 1, worth, worth + 1, worth + 2 * kPart - 1,
                                      worth + 2 * kPart, worth + 3 * kPart + 1}) {
      const Record alone = measure(bytes.data(), dtype, numel, DType::kFp16, 1);
      for (Workers* workers : {&two, &three, &five}) {
        expect_identical(measure(bytes.data(), dtype, numel, DType::kFp16, 1, workers), alone,
                         name_of(dtype) + " x " + std::to_string(numel) + " on " + std::to_string(workers->threads()));
      }
    }
    // Right as well as equal.
    expect_matches(measure(bytes.data(), dtype, worth + kPart + 1, DType::kFp16, 1, &three),
                   reference(bytes.data(), dtype, worth + kPart + 1, DType::kFp16, 1), name_of(dtype));
  }
}

TEST(Workers, StridedTensorsToo) {
  Workers workers(3);
  const Bytes bytes = hard_bytes(DType::kFp32, 3'000'000);
  const struct {
    std::vector<std::uint64_t> sizes;
    std::vector<std::int64_t> strides;
  } shapes[] = {
      {{1100, 1000}, {1500, 1}},           // rows of a wider matrix
      {{1'100'000}, {2}},                  // every second
      {{40, 50, 600}, {70'000, 1300, 2}},  // three dimensions, none joined
      {{1100, 1000}, {1, 0}},              // each element again and again
      {{7, 300'000}, {1, 7}},              // transposed: contiguous in memory
  };
  for (const auto& shape : shapes) {
    StridedTensor tensor{bytes.data(), DType::kFp32, shape.sizes.size(), {}, {}};
    std::copy(shape.sizes.begin(), shape.sizes.end(), tensor.sizes);
    std::copy(shape.strides.begin(), shape.strides.end(), tensor.strides);
    // A contiguous copy in the order of memory.
    Bytes copy;
    std::vector<std::uint64_t> index(3);
    const std::vector<std::uint64_t>& n = shape.sizes;
    const auto at = [&](std::size_t dim, std::uint64_t i) {
      return dim < n.size() ? static_cast<std::int64_t>(i) * shape.strides[dim] : 0;
    };
    const auto length = [&](std::size_t dim) { return dim < n.size() ? n[dim] : 1; };
    const bool transposed = n.size() == 2 && shape.strides[1] == 7;
    for (std::uint64_t i = 0; i < length(0) && !transposed; ++i) {
      for (std::uint64_t j = 0; j < length(1); ++j) {
        for (std::uint64_t k = 0; k < length(2); ++k) {
          const unsigned char* from = bytes.data() + 4 * (at(0, i) + at(1, j) + at(2, k));
          copy.insert(copy.end(), from, from + 4);
        }
      }
    }
    if (transposed) copy.assign(bytes.begin(), bytes.begin() + 4 * 7 * 300'000);
    const Record want = measure(copy.data(), DType::kFp32, copy.size() / 4, DType::kFp16, 1);
    const std::string what = ::testing::PrintToString(shape.sizes);
    expect_identical(measure(tensor, DType::kFp16, 1), want, what);
    expect_identical(measure(tensor, DType::kFp16, 1, &workers), want, what);
  }
}

// A tensor that is worth threads, and what measure() says of it without them.
struct Large {
  Bytes bytes = hard_bytes(DType::kBf16, 3'000'000);
  Record want = measure(bytes.data(), DType::kBf16, 3'000'000, DType::kBf16, 1);
  [[nodiscard]] Record measured(Workers* workers) const {
    return measure(bytes.data(), DType::kBf16, 3'000'000, DType::kBf16, 1, workers);
  }
};

TEST(Workers, OneSetServesManyCallers) {
  const Large large;
  Workers workers(3);
  std::vector<std::thread> callers;
  for (int i = 0; i < 3; ++i) {
    callers.emplace_back([&] {
      for (int k = 0; k < 20; ++k) expect_identical(large.measured(&workers), large.want, "shared");
    });
  }
  for (std::thread& caller : callers) caller.join();
}

TEST(Workers, PartsReallyRunOnOtherThreads) {
  Workers workers(2);
  ASSERT_EQ(workers.threads(), 2U);
  // Each of two parts waits until both are begun: one thread alone would wait for ever.
  struct Meeting {
    std::atomic<int> here{0};
    std::atomic<bool> signals_blocked{false};
    std::thread::id caller = std::this_thread::get_id();
  } meeting;
  const WorkersLease lease(&workers);
  ASSERT_TRUE(lease);
  EXPECT_FALSE(WorkersLease(&workers)) << "taken twice";
  lease.run(
      2,
      [](void* context, std::size_t) {
        Meeting& both = *static_cast<Meeting*>(context);
        if (std::this_thread::get_id() != both.caller) {
          sigset_t blocked;
          pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
          both.signals_blocked = sigismember(&blocked, SIGTERM) == 1 && sigismember(&blocked, SIGPROF) == 1;
        }
        ++both.here;
        while (both.here < 2) std::this_thread::yield();
      },
      &meeting);
  EXPECT_EQ(meeting.here, 2);
  EXPECT_TRUE(meeting.signals_blocked);
  sigset_t mine;
  pthread_sigmask(SIG_SETMASK, nullptr, &mine);
  EXPECT_EQ(sigismember(&mine, SIGTERM), 0) << "the maker's own signals stay";
}

TEST(Workers, AForkedChildMeasuresAloneAndEnds) {
  const Large large;
  auto workers = std::make_unique<Workers>(3);
  expect_identical(large.measured(workers.get()), large.want, "before");
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);  // a hang is a failure, not a stuck test
    bool same = !WorkersLease(workers.get());
    for (int i = 0; i < 5; ++i) same = same && large.measured(workers.get()).sum == large.want.sum;
    workers.reset();
    _exit(same ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  expect_identical(large.measured(workers.get()), large.want, "after");
}

TEST(Workers, NumbersOutOfRangeAreClamped) {
  EXPECT_EQ(Workers(0).threads(), 1U);
  EXPECT_EQ(Workers(1).threads(), 1U);
  const Large large;
  Workers one(1);
  expect_identical(large.measured(&one), large.want, "one");
}

}  // namespace
}  // namespace scalewatch::cpu_test
