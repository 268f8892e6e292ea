// The kernel proper. Included once per instruction set.
#if defined(SCALEWATCH_CUDA_CPU_KERNEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SCALEWATCH_CUDA_CPU_KERNEL_INL_H_
#undef SCALEWATCH_CUDA_CPU_KERNEL_INL_H_
#else
#define SCALEWATCH_CUDA_CPU_KERNEL_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "cuda/cpu/kernel.h"
#include "cuda/cpu/looks-inl.h"
#include "cuda/cpu/sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace scalewatch::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// One measurement's pass over contiguous memory. Extremes are vectors until the end.
template <class F>
class Pass {
  using Word = typename F::Bits;
  using UnsignedWord = hn::TFromD<UnsignedTag<F>>;
  static constexpr std::size_t kLanes = kMaxLanes<F>;

 public:
  Pass(const Cuts& cuts, State& state) : cuts_(cuts), state_(state) {
    std::fill_n(signed_max_, kLanes, static_cast<Word>(std::max<std::int64_t>(state.signed_max, hwy::LimitsMin<Word>())));
    std::fill_n(unsigned_max_, kLanes, static_cast<UnsignedWord>(state.unsigned_max));
    std::fill_n(magnitude_min_, kLanes, static_cast<Word>(std::min<std::int64_t>(state.magnitude_min, hwy::LimitsMax<Word>())));
    std::fill_n(absmin_less_1_, kLanes, static_cast<UnsignedWord>(state.absmin_less_1));
  }

  void run(const Word* data, std::size_t numel) {
    const std::size_t whole = numel / kGroup * kGroup;
    for (std::size_t at = 0; at < whole; at += kBlock) block(Span<F>{data + at, std::min(kBlock, whole - at), 0});
    if (whole < numel) tail(data + whole, numel - whole);
    state_.numel += numel;
    // NOLINTBEGIN(bugprone-signed-char-misuse): words of fp8 are numbers
    state_.signed_max = *std::max_element(signed_max_, signed_max_ + kLanes);
    state_.unsigned_max = *std::max_element(unsigned_max_, unsigned_max_ + kLanes);
    state_.magnitude_min = *std::min_element(magnitude_min_, magnitude_min_ + kLanes);
    // NOLINTEND(bugprone-signed-char-misuse)
    state_.absmin_less_1 = *std::min_element(absmin_less_1_, absmin_less_1_ + kLanes);
  }

 private:
  // One look for extremes and for sums that are right when all is finite and in range; the rest only where it is needed.
  // Not inlined: the loop needs the registers that a caller would keep its constants in.
  HWY_NOINLINE void block(const Span<F>& span) {
    const BitsTag<F> d;
    const UnsignedTag<F> du;
    auto smax = hn::Set(d, hwy::LimitsMin<Word>());
    auto umax = hn::Zero(du);
    auto mmin = hn::Set(d, hwy::LimitsMax<Word>());
    FastSums<F> sums;
    const std::size_t groups = span.padded / kGroup;
    for (std::size_t group = 0; group < groups; ++group) {
      const Word* at = span.data + group * kGroup;
      fold_group<F>(at, smax, umax, mmin);
      sums.add_group(at, group);
    }
    const bool all_finite = !any_from(hn::Max(smax, magnitude<F>(hn::BitCast(d, umax))), cuts_.first_non_finite);
    if (!all_finite) {
      count_non_finite(span);
      finite_extremes<F>(span, cuts_, smax, umax, mmin);
    }
    const auto absmax = hn::Max(smax, magnitude<F>(hn::BitCast(d, umax)));
    finish(span, smax, umax, mmin, absmax);
    const bool in_range = !any_from(absmax, static_cast<std::uint64_t>(F::kSumBelow)) &&
                          (F::kSumFrom == 0 || any_from(absmax, static_cast<std::uint64_t>(F::kSumFrom)));
    if (all_finite && in_range) {
      sums.add_to(groups, state_.sum, state_.sum_sq);
    } else if (any_from(absmax, 1)) {
      careful_sums<F>(span, state_.sum, state_.sum_sq, state_);
    }
  }

  // Fewer elements than a group: copied, so that nothing beyond them is read.
  void tail(const Word* data, std::size_t numel) {
    constexpr std::size_t kStep = std::max(kUnrolled * kLanes, kChains);
    const std::size_t padded = (numel + kStep - 1) / kStep * kStep;
    Word copy[kGroup];
    std::memcpy(copy, data, numel * sizeof *copy);
    std::fill(copy + numel, copy + padded, copy[0]);
    const Span<F> span{copy, padded, padded - numel};
    const BitsTag<F> d;
    Bits<F> smax;
    Unsigned<F> umax;
    Bits<F> mmin;
    finite_extremes<F>(span, cuts_, smax, umax, mmin);
    count_non_finite(span);
    finish(span, smax, umax, mmin, hn::Max(smax, magnitude<F>(hn::BitCast(d, umax))));
    std::fill(copy + numel, copy + padded, Word{0});
    careful_sums<F>(span, state_.sum, state_.sum_sq, state_);
  }

  // Zeros, counts that depend on the thresholds, and extremes, which are those of the finite elements.
  void finish(const Span<F>& span, Bits<F> smax, Unsigned<F> umax, Bits<F> mmin, Bits<F> absmax) {
    const BitsTag<F> d;
    const UnsignedTag<F> du;
    hn::StoreU(hn::Max(hn::LoadU(d, signed_max_), smax), d, signed_max_);
    hn::StoreU(hn::Max(hn::LoadU(du, unsigned_max_), umax), du, unsigned_max_);
    hn::StoreU(hn::Min(hn::LoadU(d, magnitude_min_), mmin), d, magnitude_min_);
    if (any_from(absmax, cuts_.over_from)) {
      state_.over += count_below<F>(span, cuts_.first_non_finite) - count_below<F>(span, cuts_.over_from);
    }
    const auto any_nonzero_below = [&](Unsigned<F> less_1, std::uint64_t cut) HWY_ATTR {
      return !hn::AllFalse(du, hn::Lt(less_1, hn::Set(du, static_cast<UnsignedWord>(cut - 1))));
    };
    std::size_t zeros = 0;
    std::size_t subnormal = 0;
    auto less_1 = hn::Sub(hn::BitCast(du, mmin), hn::Set(du, 1));
    if (any_below(mmin, 1)) {
      look_at_small<F>(span, cuts_.subnormal_below, zeros, subnormal, less_1);
    } else if (any_nonzero_below(less_1, cuts_.subnormal_below)) {
      subnormal = count_below<F>(span, cuts_.subnormal_below);
    }
    state_.zero += zeros;
    state_.subnormal += subnormal;
    hn::StoreU(hn::Min(hn::LoadU(du, absmin_less_1_), less_1), du, absmin_less_1_);
    if (any_nonzero_below(less_1, cuts_.flushed_below)) state_.flushed += count_below<F>(span, cuts_.flushed_below) - zeros;
  }

  void count_non_finite(const Span<F>& span) {
    const std::size_t non_finite = span.elements() - count_below<F>(span, cuts_.first_non_finite);
    const std::size_t nan = span.elements() - count_below<F>(span, cuts_.first_nan);
    state_.nan += nan;
    if (non_finite == nan) return;
    const std::size_t positive = count_equal<F>(span, cuts_.first_non_finite);
    state_.pos_inf += positive;
    state_.neg_inf += non_finite - nan - positive;
  }

  // Whether any lane is at or above a cut (at least 1).
  static bool any_from(Bits<F> v, std::uint64_t cut) {
    const BitsTag<F> d;
    return !hn::AllFalse(d, hn::Gt(v, hn::Set(d, static_cast<Word>(cut - 1))));
  }

  static bool any_below(Bits<F> v, std::uint64_t cut) {
    const BitsTag<F> d;
    return !hn::AllFalse(d, hn::Lt(v, hn::Set(d, static_cast<Word>(cut))));
  }

  const Cuts& cuts_;
  State& state_;
  // One value a lane, in memory so that they outlive a block.
  Word signed_max_[kLanes];
  UnsignedWord unsigned_max_[kLanes];
  Word magnitude_min_[kLanes];
  UnsignedWord absmin_less_1_[kLanes];
};

template <class F>
void add(const void* data, std::size_t numel, const Cuts& cuts, State& state) {
  Pass<F>(cuts, state).run(static_cast<const typename F::Bits*>(data), numel);
}

const char* name_of_target() {
  return hwy::TargetName(HWY_TARGET);
}

void add_fp64(const void* data, std::size_t numel, const Cuts& cuts, State& state) {
  add<Fp64>(data, numel, cuts, state);
}
void add_fp32(const void* data, std::size_t numel, const Cuts& cuts, State& state) {
  add<Fp32>(data, numel, cuts, state);
}
void add_fp16(const void* data, std::size_t numel, const Cuts& cuts, State& state) {
  add<Fp16>(data, numel, cuts, state);
}
void add_bf16(const void* data, std::size_t numel, const Cuts& cuts, State& state) {
  add<Bf16>(data, numel, cuts, state);
}
void add_e4m3fn(const void* data, std::size_t numel, const Cuts& cuts, State& state) {
  add<E4m3fn>(data, numel, cuts, state);
}
void add_e5m2(const void* data, std::size_t numel, const Cuts& cuts, State& state) {
  add<E5m2>(data, numel, cuts, state);
}

}  // namespace scalewatch::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SCALEWATCH_CUDA_CPU_KERNEL_INL_H_
