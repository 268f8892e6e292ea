// Runs CUDA kernels, compiled for the CPU from their unchanged source, as CUDA defines it, and finds what CUDA leaves
// undefined.
//
// A kernel's threads are fibers of the calling OS thread. One runs at a time, until it ends, meets other threads (barrier, warp
// shuffle, vote, reduction) or, in a shuffled order, comes to an atomic or a fence. The next one is then chosen by a seeded
// order, so a launch is reproducible, and a kernel whose result depends on the order gives itself away.
//
// Found, and told as Result::fault: a barrier or warp operation that some of its threads never reach, that they reach from
// different lines or with different masks, that reads a lane outside the mask; accesses outside device memory (guard pages
// around each allocation, and exact bounds for accesses through the intrinsics), misaligned or to memory that is only for
// reading; a launch that makes no progress. Shared memory is filled with a pattern before each block: two launches with
// different patterns and different results read what nobody wrote.
//
// Kernels live in shared objects of their own: `__shared__` variables are the thread-local variables of that object.
// All functions are thread-safe; launches take turns, and device memory is neither taken nor given back meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace simt {

struct Dim3 {
  unsigned x = 1;
  unsigned y = 1;
  unsigned z = 1;
};

// One kernel. params: addresses of the arguments, as cuLaunchKernel takes them.
struct Kernel {
  const char* name;
  void (*call)(void** params);
};

// In which order blocks start, and threads of a block go on.
enum class Order { kForward, kReverse, kShuffled };

inline constexpr std::uint32_t kPoisons[] = {0x7FA5A5A5U, 0xC7C3C5C1U};  // a signalling NaN; a great negative number

struct Options {
  Order blocks = Order::kForward;
  Order threads = Order::kForward;
  std::uint64_t seed = 1;                  // of shuffled orders
  std::vector<std::uint64_t> only_blocks;  // numbers of those to run; empty: all. For grids too large to run
  unsigned resident_blocks = 1;  // up to 8 blocks that run at the same time, taking turns at barriers, atomics and fences
  std::uint32_t shared_poison = kPoisons[0];  // fills shared memory before each block
  std::uint64_t max_steps = 2'000'000'000;    // meetings and atomics of a launch; more are a fault
};

struct Result {
  std::string fault;        // empty: every thread ended
  std::uint64_t steps = 0;  // meetings and atomics
  [[nodiscard]] bool ok() const { return fault.empty(); }
};

// Launches a kernel and waits for its end. A block has 1 to 1024 threads.
Result launch(const Kernel& kernel, Dim3 grid, Dim3 block, std::size_t shared_bytes, void** params,
              const Options& options = {});

}  // namespace simt
