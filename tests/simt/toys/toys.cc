#include "tests/simt/toys/toys.h"

#include "simt/cuda.h"
#include "simt/table.h"

namespace {

constexpr unsigned kAll = 0xFFFFFFFFU;

__device__ unsigned block_sum(unsigned value) {
  __shared__ unsigned warps[32];
  for (int delta = 16; delta > 0; delta /= 2) value += __shfl_down_sync(kAll, value, delta);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
  __syncthreads();
  value = threadIdx.x < blockDim.x / 32 ? warps[threadIdx.x] : 0;
  if (threadIdx.x < 32) {
    for (int delta = 16; delta > 0; delta /= 2) value += __shfl_down_sync(kAll, value, delta);
  }
  __syncthreads();
  return value;  // thread 0's
}

// Grid-stride sum; the last block to finish adds the others' partial sums up.
extern "C" __global__ void sum_last_block(const unsigned* in, unsigned n, unsigned* partial, unsigned* ticket, unsigned* out) {
  __shared__ bool last;
  unsigned sum = 0;
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += in[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = sum;
    __threadfence();
    last = atomicAdd(ticket, 1U) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return;
  sum = 0;
  for (unsigned i = threadIdx.x; i < gridDim.x; i += blockDim.x) sum += partial[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) {
    *out = sum;
    *ticket = 0;
  }
}

// The ticket is drawn before the partial sum is there.
extern "C" __global__ void ticket_too_early(const unsigned* in, unsigned* partial, unsigned* ticket, unsigned* out) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    last = atomicAdd(ticket, 1U) == gridDim.x - 1;
    __threadfence();
    partial[blockIdx.x] = in[blockIdx.x];
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    unsigned sum = 0;
    for (unsigned i = 0; i < gridDim.x; ++i) sum += partial[i];
    *out = sum;
  }
}

// A barrier is missing between the writes and the reads of shared memory.
extern "C" __global__ void dropped_barrier(unsigned* out) {
  __shared__ unsigned values[256];
  values[threadIdx.x] = threadIdx.x;
  __syncthreads();
  const unsigned neighbour = values[(threadIdx.x + 1) % blockDim.x];
  values[threadIdx.x] = neighbour + 1000;
  __syncthreads();
  out[threadIdx.x] = values[threadIdx.x];
}

extern "C" __global__ void divergent_barrier(unsigned* out) {
  if (threadIdx.x == 5) return;
  __syncthreads();
  out[threadIdx.x] = 1;
}

extern "C" __global__ void different_barriers(unsigned* out) {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
  out[threadIdx.x] = 1;
}

// Half of the lanes wait for the other half, which waits at a barrier.
extern "C" __global__ void deadlock(unsigned* out) {
  if (threadIdx.x % 2 == 0) {
    out[threadIdx.x] = __ballot_sync(kAll, 1);
  } else {
    __syncthreads();
  }
}

extern "C" __global__ void shuffle_with_mask(unsigned mask, int from, unsigned lanes, unsigned* out) {
  if (threadIdx.x >= lanes) return;
  out[threadIdx.x] = __shfl_sync(mask, threadIdx.x * 10, from);
}

extern "C" __global__ void masks_differ(unsigned* out) {
  out[threadIdx.x] = __ballot_sync(threadIdx.x == 3 ? 0xFFFFU : kAll, 1);
}

extern "C" __global__ void operations_differ(unsigned* out) {
  out[threadIdx.x] = threadIdx.x < 16 ? __ballot_sync(kAll, 1) : __reduce_add_sync(kAll, 1U);
}

// index may lie beyond the end.
extern "C" __global__ void read_at(const unsigned* in, long long index, unsigned* out) {
  *out = in[index];
}
extern "C" __global__ void checked_read_at(const unsigned* in, long long index, unsigned* out) {
  simt::check_access(in + index, sizeof(unsigned), sizeof(unsigned), simt::Access::kLoad, simt::Site::current());
  *out = in[index];
}
// One block writes, the other reads through its own cache, or as if nobody wrote.
extern "C" __global__ void stale_read(unsigned* memory, bool constant) {
  const auto access = blockIdx.x == 0 ? simt::Access::kStore : constant ? simt::Access::kLoadConstant : simt::Access::kLoad;
  simt::check_access(memory, sizeof(unsigned), sizeof(unsigned), access, simt::Site::current());
}
extern "C" __global__ void write_at(unsigned* to, long long index) {
  to[index] = 1;
}
extern "C" __global__ void read_vector(const char* in, long long offset, unsigned* out) {
  *out = reinterpret_cast<const uint4*>(in + offset)->x;
}

// Adds one more than what was written to scratch and to shared memory.
extern "C" __global__ void unwritten_scratch(unsigned* scratch, unsigned n, unsigned* out) {
  for (unsigned i = 0; i < n; ++i) scratch[i] = i;
  unsigned sum = 0;
  for (unsigned i = 0; i <= n; ++i) sum += scratch[i];
  *out = sum;
}
extern "C" __global__ void unwritten_shared(unsigned* out) {
  __shared__ unsigned values[64];
  if (threadIdx.x != 7) values[threadIdx.x] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = values[threadIdx.x];
}
extern "C" __global__ void dynamic_sum(unsigned* out) {
  auto* const values = static_cast<unsigned*>(simt::dynamic_shared());
  values[threadIdx.x] = blockIdx.x;
  __syncthreads();
  atomicAdd(out + blockIdx.x, values[(threadIdx.x + 1) % blockDim.x]);
}

extern "C" __global__ void spin(unsigned* flag) {
  while (atomicAdd(flag, 0U) == 0) {
  }
}

// All warp operations with one mask: result k of lane l at out[32 * k + l].
extern "C" __global__ void warp_operations(unsigned mask, int argument, int width, unsigned* out) {
  const unsigned lane = threadIdx.x;
  if ((mask >> lane & 1U) == 0) return;
  const unsigned x = lane * 2654435761U;
  unsigned* to = out + lane;
  const auto put = [&to](unsigned value) {
    *to = value;
    to += 32;
  };
  put(__ballot_sync(mask, x >> 31));
  put(static_cast<unsigned>(__any_sync(mask, lane == 40)));
  put(static_cast<unsigned>(__all_sync(mask, lane < 40)));
  put(__match_any_sync(mask, lane % 5));
  int all = 0;
  put(__match_all_sync(mask, lane / 32, &all));
  put(static_cast<unsigned>(all));
  put(__match_all_sync(mask, lane, &all));
  put(__reduce_add_sync(mask, x));
  put(__reduce_min_sync(mask, x));
  put(__reduce_max_sync(mask, x));
  put(static_cast<unsigned>(__reduce_min_sync(mask, static_cast<int>(x))));
  put(static_cast<unsigned>(__reduce_max_sync(mask, static_cast<int>(x))));
  put(__reduce_and_sync(mask, x | 1U));
  put(__reduce_or_sync(mask, x));
  put(__reduce_xor_sync(mask, x));
  __syncwarp(mask);
  if (mask != kAll) return;
  put(__shfl_sync(mask, x, argument, width));
  put(__shfl_up_sync(mask, x, static_cast<unsigned>(argument), width));
  put(__shfl_down_sync(mask, x, static_cast<unsigned>(argument), width));
  put(__shfl_xor_sync(mask, x, argument, width));
  put(static_cast<unsigned>(__shfl_xor_sync(mask, x * 0x1'0000'0001ULL, argument, width) >> 32));
}

extern "C" __global__ void barrier_votes(unsigned limit, int* out) {
  const int predicate = threadIdx.x < limit ? 2 : 0;
  out[3 * threadIdx.x] = __syncthreads_count(predicate);
  out[3 * threadIdx.x + 1] = __syncthreads_and(predicate);
  out[3 * threadIdx.x + 2] = __syncthreads_or(predicate);
}

extern "C" __global__ void three_dimensions(unsigned* out) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  out[block * blockDim.x * blockDim.y * blockDim.z + thread] = block * 1000 + thread;
}

constexpr simt::Kernel kKernels[] = {
    SIMT_KERNEL(sum_last_block),    SIMT_KERNEL(ticket_too_early),   SIMT_KERNEL(dropped_barrier),
    SIMT_KERNEL(divergent_barrier), SIMT_KERNEL(different_barriers), SIMT_KERNEL(deadlock),
    SIMT_KERNEL(shuffle_with_mask), SIMT_KERNEL(masks_differ),       SIMT_KERNEL(operations_differ),
    SIMT_KERNEL(read_at),           SIMT_KERNEL(checked_read_at),    SIMT_KERNEL(write_at),
    SIMT_KERNEL(stale_read),        SIMT_KERNEL(read_vector),        SIMT_KERNEL(unwritten_scratch),
    SIMT_KERNEL(unwritten_shared),  SIMT_KERNEL(dynamic_sum),        SIMT_KERNEL(spin),
    SIMT_KERNEL(warp_operations),   SIMT_KERNEL(barrier_votes),      SIMT_KERNEL(three_dimensions),
};

}  // namespace

std::span<const simt::Kernel> simt::toys::kernels() {
  return kKernels;
}
