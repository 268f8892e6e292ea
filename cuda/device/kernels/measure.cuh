// Measuring chunks.
#pragma once

#include "cuda/device/kernels/fast.cuh"

namespace scalewatch::device {

// What a block works on, in its shared memory.
struct Work {
  TensorDesc tensor;
  StridedDesc shape;
  Cuts cuts;
  U32 index;        // of the tensor
  U64 first_chunk;  // of the tensor
  U64 end_chunk;    // first chunk of the next tensor
};

// The tensor that a chunk belongs to: the last one whose first chunk is not after it. For a whole warp; every lane gets it.
SCALEWATCH_DEVICE U32 find_tensor(U64 first_chunk, U32 tensors, U64 chunk) {
  U32 low = 0;         // its first chunk is not after `chunk`
  U32 high = tensors;  // its first chunk is after `chunk`
  SCALEWATCH_NO_UNROLL
  while (high - low > 1) {
    const U32 stride = (high - low + 31) / 32;
    const U32 probe = low + (thread_index() % 32 + 1) * stride;
    const bool not_after = probe < high && load<U64>(first_chunk + U64{probe} * sizeof(U64)) <= chunk;
    low += population(ballot(not_after)) * stride;
    high = low + stride < high ? low + stride : high;
  }
  return low;
}

// Makes the thresholds of work.tensor. For a whole warp.
SCALEWATCH_DEVICE void set_cuts(Work& work, const TensorDesc& tensor) {
  const double scale = tensor.scale_address != 0 ? static_cast<double>(load<float>(tensor.scale_address)) : tensor.scale;
  const U64 cut = make_cut(tensor.dtype, tensor.target, scale, thread_index() % 32);
  if (thread_index() == 0) work.cuts.subnormal_below = cut;
  if (thread_index() == 1) work.cuts.flushed_below = cut;
  if (thread_index() == 2) work.cuts.over_from = cut;
}

// Chunk number `chunk` of the launch, which is one of work.tensor's, into its Partial. For a whole block. The caller has a
// barrier between two chunks; work changes only between that barrier's arrival of the first warp and the barrier.
SCALEWATCH_DEVICE void measure_chunk(const Work& work, U32 chunk, U64 partials) {
  const TensorDesc& tensor = work.tensor;
  const U64 first = (chunk - work.first_chunk) << tensor.chunk_shift;
  const U64 left = tensor.numel - first;
  const U64 size = U64{1} << tensor.chunk_shift;
  const U32 count = static_cast<U32>(left < size ? left : size);
  const U32 bytes = element_bytes(tensor.dtype);
  Found<U32> found;
  bool careful = tensor.strided != 0 || tensor.data % bytes != 0 || tensor.dtype == kFp64;
  if (!careful) {
    U32 flags = 0;
    with_type(tensor.dtype, [&](auto type) {
      using F = decltype(type);
      if constexpr (F::kFast) flags = fast_pass<F>(tensor.data + first * F::kBytes, count, work.cuts, found);
    });
    gather_block_begin<false>(found, flags);
    block_barrier();
    careful = must_redo(block_flags<U32>());
    if (careful) block_barrier();  // all have read the flags
  }
  if (careful) {
    found = {};
    with_type(tensor.dtype, [&](auto type) {
      using F = decltype(type);
      const StridedDesc* shape = tensor.strided != 0 ? &work.shape : nullptr;
      each_element<F>(tensor.data, shape, first, count,
                      [&](typename F::Pattern pattern) { add_element<F>(found, pattern, work.cuts); });
    });
    gather_block_begin<true>(found, 0);
    block_barrier();
  }
  if (thread_index() >= 32) return;
  found = gather_block_end<true, U32>();
  if (thread_index() != 0) return;
  const double* sums = found.sums;
  const U32* counts = found.counts;
  store<Partial>(partials + U64{chunk} * sizeof(Partial), {sums[kSum],
                                                           sums[kSumSq],
                                                           sums[kHugeSum],
                                                           sums[kHugeSumSq],
                                                           counts[kNan],
                                                           counts[kPosInf],
                                                           counts[kNegInf],
                                                           counts[kZero],
                                                           counts[kSubnormal],
                                                           counts[kFlushed],
                                                           counts[kOver],
                                                           found.min,
                                                           found.max,
                                                           found.absmin_nonzero,
                                                           {}});
}

// Chunks of a launch.
template <class Params>
SCALEWATCH_DEVICE U32 chunks_of(const Params& params) {
  return static_cast<U32>(load<U64>(params.first_chunk + U64{params.tensor_count} * sizeof(U64)));
}

SCALEWATCH_DEVICE void measure_all(const MeasureParams& params) {
  Work& work = block_shared<Work>();
  const U32 chunks = chunks_of(params);
  SCALEWATCH_NO_UNROLL
  for (U32 chunk = block_index(); chunk < chunks; chunk += block_count()) {
    // Chunks come in rising order, so most belong to the tensor that is known already.
    // The ballot also holds back the lane that writes `work` until all have read it.
    if (thread_index() < 32 && ballot(chunk == block_index() || chunk >= work.end_chunk) != 0) {
      const U32 index = find_tensor(params.first_chunk, params.tensor_count, chunk);
      const TensorDesc tensor = load<TensorDesc>(params.tensors + U64{index} * sizeof(TensorDesc));
      if (thread_index() == 0) {
        work.tensor = tensor;
        work.index = index;
        work.first_chunk = load<U64>(params.first_chunk + U64{index} * sizeof(U64));
        work.end_chunk = load<U64>(params.first_chunk + (U64{index} + 1) * sizeof(U64));
        if (tensor.strided != 0) {
          work.shape = load<StridedDesc>(params.strided + (U64{tensor.strided} - 1) * sizeof(StridedDesc));
        }
      }
      set_cuts(work, tensor);
    }
    block_barrier();
    measure_chunk(work, chunk, params.partials);
  }
}

}  // namespace scalewatch::device
