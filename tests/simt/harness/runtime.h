// What the intrinsics of tests/simt/include call. Only for code that runs in a kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <source_location>

#include "tests/simt/harness/simt.h"

namespace simt {

// Where in the source a meeting or an access is asked for.
using Site = std::source_location;

// Meetings of a block's or a warp's threads.
enum class Op : std::uint8_t {
  kBarrier,
  kBarrierCount,
  kBarrierAnd,
  kBarrierOr,
  kWarpBarrier,
  kShuffle,
  kShuffleUp,
  kShuffleDown,
  kShuffleXor,
  kBallot,
  kAny,
  kAll,
  kMatchAny,
  kMatchAll,
  kAdd,
  kMinSigned,
  kMaxSigned,
  kMinUnsigned,
  kMaxUnsigned,
  kAnd,
  kOr,
  kXor,
  kNothing,  // the thread has met nobody yet
};

// Indices of the running thread.
struct ThreadIndices {
  Dim3 thread;
  Dim3 block;
  Dim3 block_dim;
  Dim3 grid_dim;
  unsigned lane;
};
extern const ThreadIndices* current_indices;
[[nodiscard]] inline const ThreadIndices& indices() {
  return *current_indices;
}

// Waits for the threads of the block (barriers; mask is ignored) or the lanes of mask, and gives this thread's result.
// argument: source lane, delta or lane mask of a shuffle. width: of a shuffle, a power of two up to 32.
std::uint64_t meet(Op op, std::uint32_t mask, std::uint64_t value, std::uint32_t argument, std::uint32_t width, Site site);

// In a shuffled order another thread may go on here. Called around atomics and by fences.
void step();

// Ends the launch with this message. Does not return.
[[noreturn]] void fail(const char* message, Site site);

enum class Access : std::uint8_t {
  kLoad,          // of what this block or an earlier launch wrote: a processor's own cache may serve it
  kLoadConstant,  // of what no thread writes during the launch
  kLoadFresh,     // of what any block wrote
  kStore,
  kAtomic,
};

// Faults unless [address, address + bytes) is aligned, lies in one allocation of device memory, the block's shared memory or
// the thread's own variables, and the kind of access may see what was stored there by this launch. Stores are remembered by
// words.
void check_access(const void* address, std::size_t bytes, std::size_t alignment, Access access, Site site);

// The block's dynamic shared memory, 1024-byte aligned.
[[nodiscard]] void* dynamic_shared();
[[nodiscard]] std::size_t dynamic_shared_bytes();

}  // namespace simt
