// The kernels. What they do, and how they are launched, is said in abi.h.
#include "cuda/device/abi.h"
#include "cuda/device/kernels/exponents.cuh"
#include "cuda/device/kernels/finish.cuh"
#include "cuda/device/kernels/measure.cuh"

namespace scalewatch::device {

SCALEWATCH_KERNEL(kBlocksPerProcessor) scalewatch_measure(SCALEWATCH_PARAMS(MeasureParams) params) {
  measure_all(params);
}

SCALEWATCH_KERNEL(2) scalewatch_finish(SCALEWATCH_PARAMS(FinishParams) params) {
  finish_all(params);
}

SCALEWATCH_KERNEL(kBlocksPerProcessor) scalewatch_measure_one(SCALEWATCH_PARAMS(MeasureOneParams) params) {
  Work& work = block_shared<Work>();
  if (thread_index() < 32) {
    if (thread_index() == 0) {
      work.tensor = params.tensor;
      work.shape = params.shape;
      work.index = 0;
      work.first_chunk = 0;
      work.end_chunk = chunk_count(params.tensor);
    }
    set_cuts(work, params.tensor);
  }
  block_barrier();
  SCALEWATCH_NO_UNROLL
  for (U32 chunk = block_index(); chunk < static_cast<U32>(work.end_chunk); chunk += block_count()) {
    measure_chunk(work, chunk, params.partials);
    block_barrier();
  }
  if (!is_last_block(params.ticket)) return;
  const U64 block = block_of(params.results, sequence_of(params.results));
  const U64 numel = element_bytes(params.tensor.dtype) != 0 ? params.tensor.numel : 0;
  finish_by_block(record_of(params.results, block, params.record), params.partials, work.end_chunk, numel);
}

SCALEWATCH_KERNEL(2) scalewatch_gather(SCALEWATCH_PARAMS(GatherParams) params) {
  gather_all(params);
}

SCALEWATCH_KERNEL(2) scalewatch_exponents(SCALEWATCH_PARAMS(ExponentsParams) params) {
  count_exponents(params);
}

}  // namespace scalewatch::device
