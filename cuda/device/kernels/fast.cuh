// The fast pass: 16 bytes at a time, right when all elements are finite, none is over, and float can hold their sums. It tells
// when that is not so.
#pragma once

#include "cuda/device/kernels/careful.cuh"

namespace scalewatch::device {

// Flags of a thread.
inline constexpr U32 kRedo = 1;         // the careful pass has to be used
inline constexpr U32 kNotZero = 2;      // an element is not zero
inline constexpr U32 kLargeEnough = 4;  // an element reaches kFastFrom
[[nodiscard]] SCALEWATCH_DEVICE bool must_redo(U32 flags) {
  return (flags & kRedo) != 0 || (flags & (kNotZero | kLargeEnough)) == kNotZero;
}

// A step takes this many vectors a thread, so that as many loads are in flight; a round this many steps. In a step each of
// kChains sums of a thread adds up 8 elements (fp32: 4) one after the other, in a round the steps; rounds are added in double.
// So an element goes through at most 8 + 4 + 2 roundings to float: the error of a sum stays under 14 * 2^-24.
template <class F>
inline constexpr U32 kStepVectors = F::kBytes == 1 ? 2 : 4;
inline constexpr U32 kRoundSteps = 4;
inline constexpr U32 kChains = 4;

// Sums of a thread in float.
class ChainSums {
 public:
  SCALEWATCH_DEVICE ChainSums() { clear(); }

  // An element of the current step.
  SCALEWATCH_DEVICE void add(U32 chain, float x) {
    step_sum_[chain] += x;
    step_sum_sq_[chain] = fused_multiply_add(x, x, step_sum_sq_[chain]);
  }
  SCALEWATCH_DEVICE void begin_step() {
    SCALEWATCH_UNROLL
    for (U32 i = 0; i < kChains; ++i) {
      step_sum_[i] = -0.0F;  // adding to it is no operation, unlike to +0
      step_sum_sq_[i] = -0.0F;
    }
  }
  SCALEWATCH_DEVICE void end_step() {
    SCALEWATCH_UNROLL
    for (U32 i = 0; i < kChains; ++i) {
      sum_[i] += step_sum_[i];
      sum_sq_[i] += step_sum_sq_[i];
    }
  }
  SCALEWATCH_DEVICE void end_round(Found<U32>& found) {
    found.sums[kSum] += static_cast<double>((sum_[0] + sum_[1]) + (sum_[2] + sum_[3]));
    found.sums[kSumSq] += static_cast<double>((sum_sq_[0] + sum_sq_[1]) + (sum_sq_[2] + sum_sq_[3]));
    clear();
  }

 private:
  SCALEWATCH_DEVICE void clear() {
    SCALEWATCH_UNROLL
    for (U32 i = 0; i < kChains; ++i) {
      sum_[i] = 0;
      sum_sq_[i] = 0;
    }
  }

  float sum_[kChains];
  float sum_sq_[kChains];
  float step_sum_[kChains];
  float step_sum_sq_[kChains];
};

// fp32, one element a word.
template <class F>
class WordLook {
 public:
  SCALEWATCH_DEVICE explicit WordLook(const Cuts& cuts)
      : subnormal_below_(static_cast<U32>(cuts.subnormal_below)), flushed_below_(static_cast<U32>(cuts.flushed_below)) {}

  SCALEWATCH_DEVICE void add(const Words& words, ChainSums& sums) {
    SCALEWATCH_UNROLL
    for (U32 i = 0; i < 4; ++i) {
      const float x = bits_to_float(words.word[i]);
      const U32 magnitude = words.word[i] & 0x7FFFFFFFU;
      min_ = min_float(min_, x);
      max_ = max_float(max_, x);
      const U32 less_1 = magnitude - 1;  // zero wraps to the largest, and alone sets the highest bit
      less_1_ = less_1 < less_1_ ? less_1 : less_1_;
      zero_ += less_1 >> 31;
      subnormal_ += (magnitude - subnormal_below_) >> 31;
      flushed_ += (magnitude - flushed_below_) >> 31;
      sums.add(i, x);
    }
  }

  SCALEWATCH_DEVICE void end_round(Found<U32>&) {}

  SCALEWATCH_DEVICE void end(Found<U32>& found) const {
    found.min = min_;
    found.max = max_;
    if (less_1_ < 0x7FFFFFFFU) found.absmin_nonzero = bits_to_float(less_1_ + 1);
    found.counts[kZero] = zero_;
    found.counts[kSubnormal] = subnormal_ - zero_;
    found.counts[kFlushed] = flushed_ - zero_;
  }

  static SCALEWATCH_DEVICE float over_from(const Cuts& cuts) { return bits_to_float(static_cast<U32>(cuts.over_from)); }

 private:
  U32 subnormal_below_;
  U32 flushed_below_;
  float min_ = nothing();
  float max_ = nothing();
  U32 less_1_ = 0xFFFFFFFFU;
  U32 zero_ = 0;
  U32 subnormal_ = 0;
  U32 flushed_ = 0;
};

// Types of at most 16 bits, in pairs.
template <class F>
class PairLook {
  static constexpr U32 kNothing = 0x7FFF7FFFU;  // a pair of NaN

 public:
  SCALEWATCH_DEVICE explicit PairLook(const Cuts& cuts)
      : zero_below_(twice(F::view(1))),
        subnormal_below_(twice(F::view(static_cast<U32>(cuts.subnormal_below)))),
        flushed_below_(twice(F::view(static_cast<U32>(cuts.flushed_below)))) {}

  SCALEWATCH_DEVICE void add(const Words& words, ChainSums& sums) {
    SCALEWATCH_UNROLL
    for (U32 i = 0; i < 4; ++i) {
      SCALEWATCH_UNROLL
      for (U32 j = 0; j < F::kPairs; ++j) {
        const U32 pair = F::pair(words.word[i], j);
        min_ = F::smaller(min_, pair);
        max_ = F::larger(max_, pair);
        // Magnitude less 1, as a negative number: the largest is the smallest magnitude. Zero wraps to a NaN.
        less_1_ = F::larger(less_1_, (pair | 0x80008000U) - 0x00010001U);
        zero_ = F::tally_below(zero_, pair, zero_below_);
        subnormal_ = F::tally_below(subnormal_, pair, subnormal_below_);
        flushed_ = F::tally_below(flushed_, pair, flushed_below_);
        const U32 chain = 2 * ((i + j) % 2);
        sums.add(chain, F::low(pair));
        sums.add(chain + 1, F::high(pair));
      }
    }
  }

  // Before a tally could get too large.
  SCALEWATCH_DEVICE void end_round(Found<U32>& found) {
    found.counts[kZero] += F::total(zero_);
    found.counts[kSubnormal] += F::total(subnormal_);
    found.counts[kFlushed] += F::total(flushed_);
    zero_ = subnormal_ = flushed_ = 0;
  }

  SCALEWATCH_DEVICE void end(Found<U32>& found) const {
    found.min = min_float(F::low(min_), F::high(min_)) * F::kViewFactor;
    found.max = max_float(F::low(max_), F::high(max_)) * F::kViewFactor;
    found.absmin_nonzero = min_float(absmin_of(less_1_ & 0xFFFFU), absmin_of(less_1_ >> 16)) * F::kViewFactor;
    found.counts[kSubnormal] -= found.counts[kZero];
    found.counts[kFlushed] -= found.counts[kZero];
  }

  static SCALEWATCH_DEVICE float over_from(const Cuts& cuts) {
    return F::low(F::view(static_cast<U32>(cuts.over_from))) * F::kViewFactor;
  }

 private:
  static SCALEWATCH_DEVICE U32 twice(U32 half) { return half << 16 | half; }
  static SCALEWATCH_DEVICE float absmin_of(U32 less_1) {
    return (less_1 & 0x8000U) != 0 ? F::low((less_1 & 0x7FFFU) + 1) : nothing();
  }

  U32 zero_below_;
  U32 subnormal_below_;
  U32 flushed_below_;
  U32 min_ = kNothing;
  U32 max_ = kNothing;
  U32 less_1_ = kNothing;
  Tally zero_ = 0;
  Tally subnormal_ = 0;
  Tally flushed_ = 0;
};

template <class F, bool kPacked>
struct LookOf {
  using Type = WordLook<F>;
};
template <class F>
struct LookOf<F, true> {
  using Type = PairLook<F>;
};

// Loads kVectors vectors that lie a block's width apart, then adds them.
template <U32 kVectors, class Look>
SCALEWATCH_DEVICE void add_vectors(U64 address, Look& look, ChainSums& sums) {
  Words words[kVectors];
  SCALEWATCH_UNROLL
  for (U32 i = 0; i < kVectors; ++i) words[i] = load_vector(address + U64{i} * kThreads * sizeof(Words));
  sums.begin_step();
  SCALEWATCH_UNROLL
  for (U32 i = 0; i < kVectors; ++i) look.add(words[i], sums);
  sums.end_step();
}

// This thread's share of `count` contiguous elements at an address that suits them. Gives its flags.
template <class F>
SCALEWATCH_DEVICE U32 fast_pass(U64 data, U32 count, const Cuts& cuts, Found<U32>& found) {
  using Look = typename LookOf<F, F::kPacked>::Type;
  constexpr U32 kStep = kStepVectors<F>;
  const Split split = split_elements<F>(data, count);
  Look look(cuts);
  ChainSums sums;
  U32 at = thread_index();
  U64 address = data + split.head * F::kBytes + U64{at} * sizeof(Words);
  SCALEWATCH_NO_UNROLL
  while (at + (kStep - 1) * kThreads < split.vectors) {
    SCALEWATCH_NO_UNROLL
    for (U32 step = 0; step < kRoundSteps && at + (kStep - 1) * kThreads < split.vectors; ++step) {
      add_vectors<kStep>(address, look, sums);
      at += kStep * kThreads;
      address += U64{kStep} * kThreads * sizeof(Words);
    }
    sums.end_round(found);
    look.end_round(found);
  }
  SCALEWATCH_NO_UNROLL
  for (; at < split.vectors; at += kThreads) {
    add_vectors<1>(address, look, sums);
    address += U64{kThreads} * sizeof(Words);
  }
  sums.end_round(found);
  look.end_round(found);
  look.end(found);
  const float view_factor = F::kViewFactor;
  found.sums[kSum] *= view_factor;
  found.sums[kSumSq] *= view_factor * view_factor;

  const U32 end = end_element(split, count);
  if (end < count) add_element<F>(found, load<typename F::Pattern>(data + end * F::kBytes), cuts);
  const bool bad_end = (found.counts[kNan] | found.counts[kPosInf] | found.counts[kNegInf] | found.counts[kOver]) != 0;
  const float absmax = max_float(-found.min, found.max);
  const bool finite = found.sums[kSumSq] < bits_to_double(0x7FF0000000000000U);
  // over_from is at most the first magnitude that is not finite; of e4m3fn that is all that shows its NaN.
  const bool redo = bad_end || !finite || absmax >= Look::over_from(cuts);
  return (redo ? kRedo : 0) | (absmax > 0 ? kNotZero : 0) | (absmax >= F::kFastFrom ? kLargeEnough : 0);
}

}  // namespace scalewatch::device
