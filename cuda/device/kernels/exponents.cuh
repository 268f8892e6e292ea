// The histogram of exponents.
#pragma once

#include "cuda/device/kernels/measure.cuh"

namespace scalewatch::device {

inline constexpr I32 kFirstExponent = -149;

// Counts of each warp, in shared memory.
struct Histogram {
  U32 bins[kWarps][kExponentBins];
};

// Adds floor(log2 |x|) of an element, unless it is zero or not finite.
template <class F>
SCALEWATCH_DEVICE void add_exponent(U32* bins, typename F::Pattern pattern) {
  using Word = decltype(F::kSign);
  const Word magnitude = pattern & static_cast<Word>(F::kSign - 1);
  if (magnitude == 0 || magnitude >= F::kFirstNonFinite) return;
  const I32 field = static_cast<I32>(magnitude >> F::kMantissaBits);
  const I32 exponent =
      (field != 0 ? field : static_cast<I32>(bit_width(magnitude)) - static_cast<I32>(F::kMantissaBits)) - F::kBias;
  const I32 bin = exponent - kFirstExponent;
  constexpr I32 kLast = static_cast<I32>(kExponentBins) - 1;
  add_shared(bins[bin < 0 ? 0 : bin > kLast ? kLast : bin], 1);
}

SCALEWATCH_DEVICE void count_exponents(const ExponentsParams& params) {
  Work& work = block_shared<Work>();
  Histogram& histogram = block_shared<Histogram>();
  const U32 chunks = chunks_of(params);
  SCALEWATCH_NO_UNROLL
  for (U32 chunk = block_index(); chunk < chunks; chunk += block_count()) {
    for (U32 i = thread_index(); i < kWarps * kExponentBins; i += kThreads) {
      histogram.bins[i / kExponentBins][i % kExponentBins] = 0;
    }
    if (thread_index() < 32) {
      const U32 index = find_tensor(params.first_chunk, params.tensor_count, chunk);
      if (thread_index() == 0) {
        work.tensor = load<TensorDesc>(params.tensors + U64{index} * sizeof(TensorDesc));
        work.index = index;
        work.first_chunk = load<U64>(params.first_chunk + U64{index} * sizeof(U64));
        if (work.tensor.strided != 0) {
          work.shape = load<StridedDesc>(params.strided + (U64{work.tensor.strided} - 1) * sizeof(StridedDesc));
        }
      }
    }
    block_barrier();
    const TensorDesc& tensor = work.tensor;
    const U64 first = (chunk - work.first_chunk) << tensor.chunk_shift;
    const U64 left = tensor.numel - first;
    const U64 size = U64{1} << tensor.chunk_shift;
    const U32 count = static_cast<U32>(left < size ? left : size);
    const StridedDesc* shape = tensor.strided != 0 ? &work.shape : nullptr;
    U32* bins = histogram.bins[thread_index() / 32];
    with_type(tensor.dtype, [&](auto type) {
      using F = decltype(type);
      each_element<F>(tensor.data, shape, first, count, [&](typename F::Pattern pattern) { add_exponent<F>(bins, pattern); });
    });
    block_barrier();
    for (U32 i = thread_index(); i < kExponentBins; i += kThreads) {
      U64 total = 0;
      for (U32 warp = 0; warp < kWarps; ++warp) total += histogram.bins[warp][i];
      if (total != 0) add_global(params.counts + (U64{work.index} * kExponentBins + i) * sizeof(U64), total);
    }
    block_barrier();
  }
}

}  // namespace scalewatch::device
