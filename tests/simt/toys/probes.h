// Kernels that call the intrinsics of threads, warps and memory, one each.
#pragma once

#include <span>

#include "tests/simt/harness/simt.h"

namespace simt::probes {

[[nodiscard]] std::span<const Kernel> kernels();

// Arguments: address of a U32 a thread; address of their results; a lane mask.
[[nodiscard]] const Kernel& warp_kernel();

// Results of the warp kernel, one row of 32 lanes each.
enum WarpRow { kShuffleXorRow, kBallotRow, kSumRow, kOrRow, kMinRow, kMaxRow, kWarpRows };

}  // namespace simt::probes
