// Speed of measure() beside a plain read of the same memory, in turns, so that both see the same machine.
//
// scalewatch_bench_stats [--json]
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <new>
#include <random>
#include <vector>

#include "cuda/cpu/measure.h"
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

struct Result {
  double measure_gb_per_s = 0;
  double read_gb_per_s = 0;
  [[nodiscard]] double ratio() const { return measure_gb_per_s / read_gb_per_s; }
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

// Time this thread ran, memory stalls included: other processes' turns on the core don't count.
double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double median(std::array<double, kRounds> values) {
  std::nth_element(values.begin(), values.begin() + kRounds / 2, values.end());
  return values[kRounds / 2];
}

// What was computed is used: no compiler may drop it.
volatile double sink = 0;

Result run(const Case& one, unsigned char* memory, std::uint64_t element_size) {
  fill(one.dtype, memory);
  std::array<double, kRounds> measured{};
  std::array<double, kRounds> read{};
  for (int round = -1; round < kRounds; ++round) {  // the first warms up
    double start = thread_seconds();
    sink = read_all(memory, kBytes);
    const double read_time = thread_seconds() - start;
    start = thread_seconds();
    sink = measure(memory, one.dtype, kBytes / element_size, one.target, 1).sum;
    const double measure_time = thread_seconds() - start;
    if (round < 0) continue;
    read[static_cast<std::size_t>(round)] = read_time;
    measured[static_cast<std::size_t>(round)] = measure_time;
  }
  return {kBytes / median(measured) / 1e9, kBytes / median(read) / 1e9};
}

void print_json(const std::vector<Result>& results) {
  std::printf("{\"bench\":\"stats\",\"instruction_set\":\"%s\",\"bytes\":%zu,\"clock\":\"thread\",\"dtypes\":{",
              instruction_set(), kBytes);
  for (std::size_t i = 0; i < results.size(); ++i) {
    std::printf("%s\"%s\":{\"gb_per_s\":%.3f,\"read_gb_per_s\":%.3f,\"ratio\":%.3f", i == 0 ? "" : ",", kCases[i].name,
                results[i].measure_gb_per_s, results[i].read_gb_per_s, results[i].ratio());
    if (kCases[i].goal > 0) std::printf(",\"goal_ratio\":%.2f", kCases[i].goal);
    std::printf("}");
  }
  std::printf("}}\n");
}

void print_table(const std::vector<Result>& results) {
  std::printf("measure() on %s, arrays of %zu MB, median of %d, thread time\n", instruction_set(), kBytes >> 20, kRounds);
  std::printf("%-8s %12s %12s %8s %8s\n", "dtype", "GB/s", "read GB/s", "ratio", "goal");
  for (std::size_t i = 0; i < results.size(); ++i) {
    std::printf("%-8s %12.2f %12.2f %8.2f ", kCases[i].name, results[i].measure_gb_per_s, results[i].read_gb_per_s,
                results[i].ratio());
    if (kCases[i].goal > 0) {
      std::printf("%8.2f\n", kCases[i].goal);
    } else {
      std::printf("%8s\n", "-");
    }
  }
}

int bench(bool json) {
  const Memory memory(static_cast<unsigned char*>(std::aligned_alloc(4096, kBytes)));
  if (memory == nullptr) {
    std::fprintf(stderr, "scalewatch_bench_stats: no memory for an array of %zu MB\n", kBytes >> 20);
    return 1;
  }
  std::vector<Result> results;
  for (const Case& one : kCases) results.push_back(run(one, memory.get(), element_size(one.dtype)));
  json ? print_json(results) : print_table(results);
  return 0;
}

}  // namespace
}  // namespace scalewatch::bench

int main(int argc, char** argv) {
  const bool json = argc == 2 && std::strcmp(argv[1], "--json") == 0;
  if (argc > 1 && !json) {
    std::fprintf(stderr, "usage: scalewatch_bench_stats [--json]\n");
    return 2;
  }
  return scalewatch::bench::bench(json);
}
