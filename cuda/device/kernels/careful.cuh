// The careful pass: element by element, right for all of them. Also reads what is strided or not aligned.
#pragma once

#include "cuda/device/kernels/cuts.cuh"
#include "cuda/device/kernels/found.cuh"

namespace scalewatch::device {

// fp64 elements from here on are summed scaled down, so that no sum leaves double's range.
inline constexpr double kHuge = 0x1p960;
inline constexpr double kHugeScale = 0x1p-100;
inline constexpr double kHugeSquare = 0x1p480;
inline constexpr double kHugeSquareRoot = 0x1p-600;

// Nearest float within float's range; what is not zero stays so.
SCALEWATCH_DEVICE float clamp_to_float(double value) {
  const double size = value < 0 ? -value : value;
  const float magnitude = size == 0               ? 0.0F
                          : size < 0x1p-149       ? 0x1p-149F
                          : size > 0x1.FFFFFEp127 ? 0x1.FFFFFEp127F
                                                  : static_cast<float>(size);
  return value < 0 ? -magnitude : magnitude;
}
SCALEWATCH_DEVICE float clamp_to_float(float value) {
  return value;
}

// Adds to the sums.
SCALEWATCH_DEVICE void add_value(Found<U32>& found, float value) {
  const double x = value;
  found.sums[kSum] += x;
  found.sums[kSumSq] += x * x;  // the square is exact
}
SCALEWATCH_DEVICE void add_value(Found<U32>& found, double x) {
  const double size = x < 0 ? -x : x;
  if (size < kHuge) {
    found.sums[kSum] += x;
  } else {
    found.sums[kHugeSum] += x * kHugeScale;
  }
  if (size < kHugeSquare) {
    found.sums[kSumSq] += x * x;
  } else {
    found.sums[kHugeSumSq] += (x * kHugeSquareRoot) * (x * kHugeSquareRoot);
  }
}

// Adds an element.
template <class F>
SCALEWATCH_DEVICE void add_element(Found<U32>& found, typename F::Pattern pattern, const Cuts& cuts) {
  using Word = decltype(F::kSign);
  const Word magnitude = pattern & static_cast<Word>(F::kSign - 1);
  if (magnitude >= F::kFirstNonFinite) {
    const bool negative = (pattern & F::kSign) != 0;
    found.counts[kNan] += magnitude >= F::kFirstNan ? 1 : 0;
    found.counts[kPosInf] += magnitude < F::kFirstNan && !negative ? 1 : 0;
    found.counts[kNegInf] += magnitude < F::kFirstNan && negative ? 1 : 0;
    return;
  }
  const auto value = F::value(pattern);
  const float shown = clamp_to_float(value);
  found.min = min_float(found.min, shown);
  found.max = max_float(found.max, shown);
  if (magnitude == 0) {
    ++found.counts[kZero];
    return;
  }
  found.absmin_nonzero = min_float(found.absmin_nonzero, shown < 0 ? -shown : shown);
  found.counts[kSubnormal] += magnitude < static_cast<Word>(cuts.subnormal_below) ? 1 : 0;
  found.counts[kFlushed] += magnitude < static_cast<Word>(cuts.flushed_below) ? 1 : 0;
  found.counts[kOver] += magnitude >= static_cast<Word>(cuts.over_from) ? 1 : 0;
  add_value(found, value);
}

// Bits of the element at an address of any alignment.
template <class F>
SCALEWATCH_DEVICE typename F::Pattern load_element(U64 address) {
  using Pattern = typename F::Pattern;
  if (address % F::kBytes == 0) return load<Pattern>(address);
  Pattern pattern = 0;
  SCALEWATCH_UNROLL
  for (U32 i = 0; i < F::kBytes; ++i) {
    pattern = static_cast<Pattern>(pattern | static_cast<U64>(load<U8>(address + i)) << (8 * i));
  }
  return pattern;
}

// Distance, in elements, from the first element to number `index`.
SCALEWATCH_DEVICE I64 strided_offset(const StridedDesc& shape, U64 index) {
  I64 offset = 0;
  SCALEWATCH_NO_UNROLL
  for (U32 dim = shape.dims; dim > 0; --dim) {
    const U64 size = shape.sizes[dim - 1];
    U64 rest;
    if (((index | size) >> 32) == 0) {  // the common case, and many times cheaper
      rest = static_cast<U32>(index) / static_cast<U32>(size);
    } else {
      rest = index / size;
    }
    offset += static_cast<I64>(index - rest * size) * shape.strides[dim - 1];
    index = rest;
  }
  return offset;
}

// Contiguous elements at an address that suits them: those before the first multiple of 16, whole vectors of 16 bytes, and
// those after them. Both ends have less than a vector; each of their elements is one thread's.
struct Split {
  U32 head;
  U32 vectors;
  U32 tail;
};
template <class F>
SCALEWATCH_DEVICE Split split_elements(U64 data, U32 count) {
  constexpr U32 kVectorElements = sizeof(Words) / F::kBytes;
  const U32 to_boundary = static_cast<U32>(0 - data) % sizeof(Words) / F::kBytes;
  const U32 head = to_boundary < count ? to_boundary : count;
  return {head, (count - head) / kVectorElements, (count - head) % kVectorElements};
}
// Number of this thread's element of the head (first warp) or the tail (second warp), or `count`: it has none.
SCALEWATCH_DEVICE U32 end_element(const Split& split, U32 count) {
  if (thread_index() < split.head) return thread_index();
  if (thread_index() / 32 == 1 && thread_index() % 32 < split.tail) return count - split.tail + thread_index() % 32;
  return count;
}

// Calls body with the bits of each element of a vector.
template <class F, class Body>
SCALEWATCH_DEVICE void each_of_vector(const Words& words, const Body& body) {
  U64 low = static_cast<U64>(words.word[1]) << 32 | words.word[0];
  U64 high = static_cast<U64>(words.word[3]) << 32 | words.word[2];
  SCALEWATCH_NO_UNROLL
  for (U32 i = 0; i < sizeof(Words) / F::kBytes; ++i) {
    body(static_cast<typename F::Pattern>(low));
    if constexpr (F::kBytes == 8) {
      low = high;
    } else {
      low = low >> (8 * F::kBytes) | high << (64 - 8 * F::kBytes);
      high >>= 8 * F::kBytes;
    }
  }
}

// Calls body with the bits of this thread's share of the elements first ... first + count - 1. shape: null when contiguous.
template <class F, class Body>
SCALEWATCH_DEVICE void each_element(U64 data, const StridedDesc* shape, U64 first, U32 count, const Body& body) {
  U32 from = thread_index();
  U32 step = kThreads;
  if (shape == nullptr && data % F::kBytes == 0) {
    const U64 begin = data + first * F::kBytes;
    const Split split = split_elements<F>(begin, count);
    SCALEWATCH_NO_UNROLL
    for (U32 i = thread_index(); i < split.vectors; i += kThreads) {
      each_of_vector<F>(load_vector(begin + split.head * F::kBytes + U64{i} * sizeof(Words)), body);
    }
    from = end_element(split, count);
    step = count;
  }
  SCALEWATCH_NO_UNROLL
  for (U32 i = from; i < count; i += step) {
    const U64 at = shape == nullptr ? first + i : static_cast<U64>(strided_offset(*shape, first + i));
    body(load_element<F>(data + at * F::kBytes));
  }
}

}  // namespace scalewatch::device
