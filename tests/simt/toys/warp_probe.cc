// Built twice: with the harness's intrinsics, and with the real ones as old processors have them, in plain C++.
#include "simt/cuda.h"
#include "simt/table.h"
#include "tests/simt/toys/probes.h"

#include "cuda/device/kernels/intrinsics.cuh"

namespace scalewatch::device {
namespace {

using simt::probes::kWarpRows;

// in, out: addresses of one U32 a thread; out has kWarpRows rows a warp.
SCALEWATCH_KERNEL(1) warp_probe(U64 in, U64 out, U32 argument) {
  const U32 value = load<U32>(in + U64{thread_index()} * 4);
  const U32 results[kWarpRows] = {
      shuffle_xor(value, argument),

      ballot(value % 2 != 0),       warp_sum(value), warp_or(value), warp_min(value), warp_max(value)};
  for (U32 row = 0; row < kWarpRows; ++row) {
    store<U32>(out + (U64{thread_index() / 32 * kWarpRows + row} * 32 + thread_index() % 32) * 4, results[row]);
  }
}

constexpr simt::Kernel kKernel = SIMT_KERNEL(warp_probe);

}  // namespace
}  // namespace scalewatch::device

const simt::Kernel& simt::probes::warp_kernel() {
  return scalewatch::device::kKernel;
}
