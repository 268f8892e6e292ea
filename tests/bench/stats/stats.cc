// Speed of measure() beside a plain read of the same memory, in turns, so that both see the same machine: on one thread, on
// AVX2 where the machine has better, and on several threads.
//
// scalewatch_bench_stats [--json] [--threads N]
#include <hwy/targets.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cuda/cpu/measure.h"
#include "cuda/cpu/workers.h"
#include "cuda/record/format.h"
#include "tests/bench/stats/read.h"

namespace scalewatch::bench {
namespace {

constexpr std::size_t kBytes = std::size_t{256} << 20;
constexpr std::size_t kPattern = std::size_t{1} << 20;  // random bytes, repeated over the array
constexpr int kRounds = 9;                              // each reads and measures once; medians are reported

struct Case {
  const char* name;
  DType dtype;
  DType target;
  double goal;  // of the read's speed; 0 = none set
};

constexpr Case kCases[] = {
    {"fp64", DType::kFp64, DType::kFp16, 0},       {"fp32", DType::kFp32, DType::kFp16, 0.90},
    {"fp16", DType::kFp16, DType::kFp16, 0.70},    {"bf16", DType::kBf16, DType::kBf16, 0.70},
    {"e4m3fn", DType::kE4m3fn, DType::kE4m3fn, 0}, {"e5m2", DType::kE5m2, DType::kE5m2, 0},
};

// One way of measuring beside the read that it is compared with, in GB/s.
struct Speed {
  double measure = 0;
  double read = 0;
  [[nodiscard]] double ratio() const { return measure / read; }
};

struct Result {
  Speed one;      // one thread, the machine's best instruction set
  Speed avx2;     // one thread, AVX2; zeros where that is the best or missing
  Speed threads;  // all threads that were given, wall time; zeros where there is one
};

struct Free {
  void operator()(unsigned char* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<unsigned char, Free>;

// Normally distributed gradients around 2^-9, of which fp16 keeps nearly all: what a healthy run holds.
void fill(DType dtype, unsigned char* memory) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0x1p-9F);
  for (std::size_t at = 0; at < kPattern;) {
    const float x = normal(random);
    const double wide = x;
    const auto half = static_cast<_Float16>(x);
    std::uint32_t bits = 0;
    std::memcpy(&bits, &x, sizeof bits);
    switch (dtype) {
      case DType::kFp64:
        std::memcpy(memory + at, &wide, 8);
        at += 8;
        break;
      case DType::kFp32:
        std::memcpy(memory + at, &x, 4);
        at += 4;
        break;
      case DType::kFp16:
        std::memcpy(memory + at, &half, 2);
        at += 2;
        break;
      case DType::kBf16: {
        const auto upper = static_cast<std::uint16_t>(bits >> 16);
        std::memcpy(memory + at, &upper, 2);
        at += 2;
        break;
      }
      default:
        memory[at] = static_cast<unsigned char>(((bits >> 24) & 0x80U) | (random() % 0x70U));
        at += 1;
    }
  }
  for (std::size_t at = kPattern; at < kBytes; at += kPattern) std::memcpy(memory + at, memory, kPattern);
}

double seconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Runs one thing a round and remembers how long it took.
class Stopwatch {
 public:
  // Thread time counts this thread only, memory stalls included: other processes' turns on the core don't count.
  explicit Stopwatch(clockid_t clock) : clock_(clock) {}

  template <class Work>
  void time(const Work& work) {
    const double start = seconds(clock_);
    work();
    times_.push_back(seconds(clock_) - start);
  }

  // Median, without the first round, which warms up.
  [[nodiscard]] double gb_per_s() const {
    std::vector<double> sorted(times_.begin() + 1, times_.end());
    std::nth_element(sorted.begin(), sorted.begin() + sorted.size() / 2, sorted.end());
    return kBytes / sorted[sorted.size() / 2] / 1e9;
  }

 private:
  clockid_t clock_;
  std::vector<double> times_;
};

// What was computed is used: no compiler may drop it.
volatile double sink = 0;

// The plain read, on the threads that measure() would have.
void read_with(Workers& workers, const unsigned char* memory) {
  constexpr std::size_t kPieces = 64;
  struct Reading {
    const unsigned char* memory;
    std::array<std::uint32_t, kPieces> sums;
  } reading{memory, {}};
  const WorkersLease lease(&workers);
  lease.run(
      kPieces,
      [](void* context, std::size_t piece) {
        Reading& all = *static_cast<Reading*>(context);
        all.sums[piece] = read_all(all.memory + piece * (kBytes / kPieces), kBytes / kPieces);
      },
      &reading);
  sink = reading.sums[0];
}

bool has_better_than_avx2() {
  return instruction_set() != std::string("AVX2") && (hwy::SupportedTargets() & HWY_AVX2) != 0;
}

Result run(const Case& one, unsigned char* memory, Workers& workers) {
  fill(one.dtype, memory);
  const std::uint64_t numel = kBytes / element_size(one.dtype);
  const bool avx2_too = has_better_than_avx2();
  const bool threads_too = workers.threads() > 1;
  Stopwatch read(CLOCK_THREAD_CPUTIME_ID);
  Stopwatch best(CLOCK_THREAD_CPUTIME_ID);
  Stopwatch avx2(CLOCK_THREAD_CPUTIME_ID);
  Stopwatch read_threads(CLOCK_MONOTONIC);
  Stopwatch best_threads(CLOCK_MONOTONIC);
  for (int round = 0; round <= kRounds; ++round) {
    read.time([&] { sink = read_all(memory, kBytes); });
    best.time([&] { sink = measure(memory, one.dtype, numel, one.target, 1).sum; });
    if (avx2_too) {
      hwy::SetSupportedTargetsForTest(HWY_AVX2);
      avx2.time([&] { sink = measure(memory, one.dtype, numel, one.target, 1).sum; });
      hwy::SetSupportedTargetsForTest(0);
    }
    if (threads_too) {
      read_threads.time([&] { read_with(workers, memory); });
      best_threads.time([&] { sink = measure(memory, one.dtype, numel, one.target, 1, &workers).sum; });
    }
  }
  Result result{{best.gb_per_s(), read.gb_per_s()}, {}, {}};
  if (avx2_too) result.avx2 = {avx2.gb_per_s(), read.gb_per_s()};
  if (threads_too) result.threads = {best_threads.gb_per_s(), read_threads.gb_per_s()};
  return result;
}

void print_json(const std::vector<Result>& results, unsigned threads) {
  std::printf("{\"bench\":\"stats\",\"instruction_set\":\"%s\",\"bytes\":%zu,\"clock\":\"thread\",\"threads\":%u,\"dtypes\":{",
              instruction_set(), kBytes, threads);
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Result& result = results[i];
    std::printf("%s\"%s\":{\"gb_per_s\":%.3f,\"read_gb_per_s\":%.3f,\"ratio\":%.3f", i == 0 ? "" : ",", kCases[i].name,
                result.one.measure, result.one.read, result.one.ratio());
    if (result.avx2.read > 0)
      std::printf(",\"avx2_gb_per_s\":%.3f,\"avx2_ratio\":%.3f", result.avx2.measure, result.avx2.ratio());
    if (result.threads.read > 0) {
      std::printf(",\"threads_gb_per_s\":%.3f,\"threads_read_gb_per_s\":%.3f", result.threads.measure, result.threads.read);
    }
    if (kCases[i].goal > 0) std::printf(",\"goal_ratio\":%.2f", kCases[i].goal);
    std::printf("}");
  }
  std::printf("}}\n");
}

void print_speed(const Speed& speed) {
  if (speed.read > 0) {
    std::printf(" |%8.2f %8.2f %6.2f", speed.measure, speed.read, speed.ratio());
  } else {
    std::printf(" |%8s %8s %6s", "-", "-", "-");
  }
}

void print_table(const std::vector<Result>& results, unsigned threads) {
  std::printf("measure() beside a plain read, GB/s, arrays of %zu MB, median of %d\n", kBytes >> 20, kRounds);
  const std::string several = std::to_string(threads) + " threads, wall time";
  std::printf("%-8s%6s | %-23s | %-23s | %s\n", "", "", (std::string(instruction_set()) + ", thread time").c_str(),
              "AVX2, thread time", several.c_str());
  std::printf("%-8s%6s", "dtype", "goal");
  for (int i = 0; i < 3; ++i) std::printf(" |%8s %8s %6s", "measure", "read", "ratio");
  std::printf("\n");
  for (std::size_t i = 0; i < results.size(); ++i) {
    std::printf("%-8s", kCases[i].name);
    kCases[i].goal > 0 ? std::printf("%6.2f", kCases[i].goal) : std::printf("%6s", "-");
    print_speed(results[i].one);
    print_speed(results[i].avx2);
    print_speed(results[i].threads);
    std::printf("\n");
  }
}

int bench(bool json, unsigned threads) {
  const Memory memory(static_cast<unsigned char*>(std::aligned_alloc(4096, kBytes)));
  if (memory == nullptr) {
    std::fprintf(stderr, "scalewatch_bench_stats: no memory for an array of %zu MB\n", kBytes >> 20);
    return 1;
  }
  Workers workers(threads);
  std::vector<Result> results;
  for (const Case& one : kCases) results.push_back(run(one, memory.get(), workers));
  json ? print_json(results, workers.threads()) : print_table(results, workers.threads());
  return 0;
}

}  // namespace
}  // namespace scalewatch::bench

int main(int argc, char** argv) {
  bool json = false;
  unsigned threads = std::thread::hardware_concurrency();
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0) {
      json = true;
    } else if (std::strcmp(argv[i], "--threads") == 0 && i + 1 < argc) {
      threads = static_cast<unsigned>(std::strtoul(argv[++i], nullptr, 10));
    } else {
      std::fprintf(stderr, "usage: scalewatch_bench_stats [--json] [--threads N]\n");
      return 2;
    }
  }
  return scalewatch::bench::bench(json, threads);
}
