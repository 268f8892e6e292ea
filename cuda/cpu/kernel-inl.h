// The kernel proper. Included once per instruction set.
#if defined(SCALEWATCH_CUDA_CPU_KERNEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SCALEWATCH_CUDA_CPU_KERNEL_INL_H_
#undef SCALEWATCH_CUDA_CPU_KERNEL_INL_H_
#else
#define SCALEWATCH_CUDA_CPU_KERNEL_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "cuda/cpu/formats-inl.h"
#include "cuda/cpu/kernel.h"

HWY_BEFORE_NAMESPACE();
namespace scalewatch::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class F>
using BitsTag = hn::CappedTag<typename F::Bits, kChains>;
template <class F>
using UnsignedTag = hn::RebindToUnsigned<BitsTag<F>>;
template <class F>
using Bits = hn::VFromD<BitsTag<F>>;
template <class F>
using Unsigned = hn::VFromD<UnsignedTag<F>>;

// Whole groups in memory. The last pad elements repeat the first one and are not part of the tensor.
template <class F>
struct Span {
  const typename F::Raw* data;
  std::size_t groups;
  std::size_t pad;

  [[nodiscard]] std::size_t padded() const { return groups * kGroup; }
  [[nodiscard]] std::size_t elements() const { return padded() - pad; }
};

template <class F>
HWY_INLINE Bits<F> magnitude(Bits<F> v) {
  return hn::And(v, hn::Set(BitsTag<F>(), hwy::LimitsMax<typename F::Bits>()));
}

// Elements whose magnitude is below a cut.
template <class F>
std::size_t count_below(const Span<F>& span, std::uint64_t cut) {
  const BitsTag<F> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto limit = hn::Set(d, static_cast<typename F::Bits>(cut));
  auto count = hn::Zero(d);  // at most kBlock: fits 16 bits
  for (std::size_t i = 0; i < span.padded(); i += lanes) {
    const auto below = hn::Lt(magnitude<F>(F::load(d, span.data + i)), limit);
    count = hn::Sub(count, hn::VecFromMask(d, below));
  }
  const bool first_below = hn::GetLane(magnitude<F>(F::load(d, span.data))) < static_cast<typename F::Bits>(cut);
  return static_cast<std::size_t>(hn::GetLane(hn::SumOfLanes(d, count))) - (first_below ? span.pad : 0);
}

// Elements whose bits, sign included, equal a pattern.
template <class F>
std::size_t count_equal(const Span<F>& span, std::uint64_t pattern) {
  const BitsTag<F> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto wanted = hn::Set(d, static_cast<typename F::Bits>(pattern));
  auto count = hn::Zero(d);
  for (std::size_t i = 0; i < span.padded(); i += lanes) {
    count = hn::Sub(count, hn::VecFromMask(d, hn::Eq(F::load(d, span.data + i), wanted)));
  }
  const bool first_equal = hn::GetLane(F::load(d, span.data)) == static_cast<typename F::Bits>(pattern);
  return static_cast<std::size_t>(hn::GetLane(hn::SumOfLanes(d, count))) - (first_equal ? span.pad : 0);
}

// Extremes of the finite elements only.
template <class F>
void masked_extremes(const Span<F>& span, const Cuts& cuts, Bits<F>& signed_max, Unsigned<F>& unsigned_max,
                     Unsigned<F>& unsigned_min, Unsigned<F>& absmin_less_1) {
  const BitsTag<F> d;
  const UnsignedTag<F> du;
  const std::size_t lanes = hn::Lanes(d);
  const auto limit = hn::Set(d, static_cast<typename F::Bits>(cuts.first_non_finite));
  const auto lowest = hn::Set(d, hwy::LimitsMin<typename F::Bits>());
  const auto highest = hn::Set(du, hwy::LimitsMax<hn::TFromD<UnsignedTag<F>>>());
  signed_max = lowest;
  unsigned_max = hn::Zero(du);
  unsigned_min = highest;
  absmin_less_1 = highest;
  for (std::size_t i = 0; i < span.padded(); i += lanes) {
    const auto v = F::load(d, span.data + i);
    const auto mag = magnitude<F>(v);
    const auto finite = hn::VecFromMask(d, hn::Lt(mag, limit));
    const auto keep = hn::BitCast(du, finite);
    const auto drop = hn::Not(keep);
    const auto u = hn::BitCast(du, v);
    signed_max = hn::Max(signed_max, hn::Or(hn::And(finite, v), hn::AndNot(finite, lowest)));
    unsigned_max = hn::Max(unsigned_max, hn::And(u, keep));
    unsigned_min = hn::Min(unsigned_min, hn::Or(u, drop));
    absmin_less_1 = hn::Min(absmin_less_1, hn::Or(hn::Sub(hn::BitCast(du, mag), hn::Set(du, 1)), drop));
  }
}

// Adds float lanes to consecutive chains.
template <class DF>
HWY_INLINE void add_to_chains(DF df, hn::VFromD<DF> v, double* HWY_RESTRICT chains) {
  const hn::Half<DF> dh;
  const hn::Rebind<double, decltype(dh)> dd;
  const std::size_t half = hn::Lanes(dd);
  (void)df;
  hn::StoreU(hn::Add(hn::LoadU(dd, chains), hn::PromoteTo(dd, hn::LowerHalf(dh, v))), dd, chains);
  hn::StoreU(hn::Add(hn::LoadU(dd, chains + half), hn::PromoteTo(dd, hn::UpperHalf(dh, v))), dd, chains + half);
}

// Adds float lanes and their squares, taken in double, to consecutive chains.
template <class DF>
HWY_INLINE void add_squares_to_chains(DF df, hn::VFromD<DF> v, double* HWY_RESTRICT sum, double* HWY_RESTRICT sum_sq) {
  const hn::Half<DF> dh;
  const hn::Rebind<double, decltype(dh)> dd;
  const std::size_t half = hn::Lanes(dd);
  (void)df;
  const auto low = hn::PromoteTo(dd, hn::LowerHalf(dh, v));
  const auto high = hn::PromoteTo(dd, hn::UpperHalf(dh, v));
  hn::StoreU(hn::Add(hn::LoadU(dd, sum), low), dd, sum);
  hn::StoreU(hn::Add(hn::LoadU(dd, sum + half), high), dd, sum + half);
  hn::StoreU(hn::Add(hn::LoadU(dd, sum_sq), hn::Mul(low, low)), dd, sum_sq);
  hn::StoreU(hn::Add(hn::LoadU(dd, sum_sq + half), hn::Mul(high, high)), dd, sum_sq + half);
}

// Sums of finite elements whose magnitudes fit no fast path: narrow formats wholly in double; fp64 element by element, with the
// huge ones scaled down.
template <class F>
void careful_sums(const Span<F>& span, const Cuts& cuts, double* HWY_RESTRICT sum, double* HWY_RESTRICT sum_sq, State& state) {
  const BitsTag<F> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto limit = hn::Set(d, static_cast<typename F::Bits>(cuts.first_non_finite));
  if constexpr (sizeof(typename F::Bits) == 8) {
    (void)lanes;
    (void)limit;
    double huge_sum = 0;
    double huge_sum_sq = 0;
    for (std::size_t i = 0; i < span.padded(); ++i) {
      double x = 0;
      std::memcpy(&x, span.data + i, sizeof x);
      if (!std::isfinite(x)) continue;
      const double size = std::fabs(x);
      if (size < kHuge) {
        sum[i % kChains] += x;
      } else {
        huge_sum += x * kHugeScale;
      }
      if (size < kHugeSquare) {
        sum_sq[i % kChains] += x * x;
      } else {
        huge_sum_sq += (x * kHugeSquareRoot) * (x * kHugeSquareRoot);
      }
    }
    state.huge_sum += huge_sum;
    state.huge_sum_sq += huge_sum_sq;
  } else {
    for (std::size_t i = 0; i < span.padded(); i += lanes) {
      const auto v = F::load(d, span.data + i);
      const auto finite = hn::IfThenElseZero(hn::Lt(magnitude<F>(v), limit), v);
      const std::size_t at = i % kChains;
      if constexpr (sizeof(typename F::Bits) == 4) {
        const hn::RebindToFloat<BitsTag<F>> df;
        add_squares_to_chains(df, hn::BitCast(df, finite), sum + at, sum_sq + at);
      } else {
        const hn::Repartition<float, BitsTag<F>> df;
        hn::VFromD<decltype(df)> first;
        hn::VFromD<decltype(df)> second;
        F::to_floats(df, finite, first, second);
        add_squares_to_chains(df, first, sum + at, sum_sq + at);
        add_squares_to_chains(df, second, sum + at + lanes / 2, sum_sq + at + lanes / 2);
      }
    }
  }
}

// One look at a block: extremes of all elements, zeros, and sums that are right when all are finite and in range.
template <class F>
HWY_INLINE std::size_t fast_look(const Span<F>& span, Bits<F>& signed_max, Unsigned<F>& unsigned_max, Unsigned<F>& unsigned_min,
                                 Unsigned<F>& absmin_less_1, double* HWY_RESTRICT sum, double* HWY_RESTRICT sum_sq) {
  const BitsTag<F> d;
  const UnsignedTag<F> du;
  const std::size_t lanes = hn::Lanes(d);
  auto smax = hn::Set(d, hwy::LimitsMin<typename F::Bits>());
  auto umax = hn::Zero(du);
  auto umin = hn::Set(du, hwy::LimitsMax<hn::TFromD<UnsignedTag<F>>>());
  auto amin = umin;
  auto zeros = hn::Zero(d);
  const auto fold = [&](Bits<F> v) HWY_ATTR {
    const auto mag = magnitude<F>(v);
    const auto u = hn::BitCast(du, v);
    smax = hn::Max(smax, v);
    umax = hn::Max(umax, u);
    umin = hn::Min(umin, u);
    amin = hn::Min(amin, hn::Sub(hn::BitCast(du, mag), hn::Set(du, 1)));
    zeros = hn::Sub(zeros, hn::VecFromMask(d, hn::Eq(mag, hn::Zero(d))));
  };
  for (std::size_t group = 0; group < span.padded(); group += kGroup) {
    for (std::size_t column = 0; column < kChains; column += lanes) {
      const auto* from = span.data + group + column;
      if constexpr (sizeof(typename F::Bits) == 8) {
        const hn::RebindToFloat<BitsTag<F>> dd;
        auto s = hn::LoadU(dd, sum + column);
        auto q = hn::LoadU(dd, sum_sq + column);
        for (std::size_t row = 0; row < kGroupRows; ++row) {
          const auto v = F::load(d, from + row * kChains);
          fold(v);
          const auto x = hn::BitCast(dd, v);
          s = hn::Add(s, x);
          q = hn::Add(q, hn::Mul(x, x));
        }
        hn::StoreU(s, dd, sum + column);
        hn::StoreU(q, dd, sum_sq + column);
      } else if constexpr (sizeof(typename F::Bits) == 4) {
        const hn::RebindToFloat<BitsTag<F>> df;
        auto s = hn::Zero(df);
        auto q = hn::Zero(df);
        for (std::size_t row = 0; row < kGroupRows; ++row) {
          const auto v = F::load(d, from + row * kChains);
          fold(v);
          const auto x = hn::BitCast(df, v);
          s = hn::Add(s, x);
          q = hn::Add(q, hn::Mul(x, x));
        }
        add_to_chains(df, s, sum + column);
        add_to_chains(df, q, sum_sq + column);
      } else {
        const hn::Repartition<float, BitsTag<F>> df;
        auto s1 = hn::Zero(df);
        auto s2 = hn::Zero(df);
        auto q1 = hn::Zero(df);
        auto q2 = hn::Zero(df);
        for (std::size_t row = 0; row < kGroupRows; ++row) {
          const auto v = F::load(d, from + row * kChains);
          fold(v);
          hn::VFromD<decltype(df)> first;
          hn::VFromD<decltype(df)> second;
          F::to_floats(df, v, first, second);
          s1 = hn::Add(s1, first);
          s2 = hn::Add(s2, second);
          q1 = hn::Add(q1, hn::Mul(first, first));
          q2 = hn::Add(q2, hn::Mul(second, second));
        }
        const std::size_t half = lanes / 2;
        add_to_chains(df, s1, sum + column);
        add_to_chains(df, s2, sum + column + half);
        add_to_chains(df, q1, sum_sq + column);
        add_to_chains(df, q2, sum_sq + column + half);
      }
    }
  }
  signed_max = smax;
  unsigned_max = umax;
  unsigned_min = umin;
  absmin_less_1 = amin;
  return static_cast<std::size_t>(hn::GetLane(hn::SumOfLanes(d, zeros)));
}

// Where chain c of a row lies in the arrays of chains.
template <class F>
HWY_INLINE std::size_t place_of_chain(std::size_t c) {
  if constexpr (!F::kInterleaved) return c;
  const std::size_t lanes = hn::Lanes(BitsTag<F>());
  const std::size_t within = c % lanes;
  return c - within + (within % 2) * (lanes / 2) + within / 2;
}

// One measurement's pass over contiguous memory. Extremes are vectors until the end.
template <class F>
class Pass {
  using Word = typename F::Bits;
  using UnsignedWord = hn::TFromD<UnsignedTag<F>>;

 public:
  Pass(const Cuts& cuts, State& state) : cuts_(cuts), state_(state) {
    std::fill_n(signed_max_, kChains, static_cast<Word>(std::max<std::int64_t>(state.signed_max, hwy::LimitsMin<Word>())));
    std::fill_n(unsigned_max_, kChains, static_cast<UnsignedWord>(state.unsigned_max));
    std::fill_n(unsigned_min_, kChains, static_cast<UnsignedWord>(state.unsigned_min));
    std::fill_n(absmin_less_1_, kChains, static_cast<UnsignedWord>(state.absmin_less_1));
    for (std::size_t c = 0; c < kChains; ++c) {
      sum_[place_of_chain<F>(c)] = state.sum[c];
      sum_sq_[place_of_chain<F>(c)] = state.sum_sq[c];
    }
  }

  void run(const typename F::Raw* data, std::size_t numel) {
    const std::size_t whole = numel / kGroup * kGroup;
    for (std::size_t at = 0; at < whole; at += kBlock) {
      const Span<F> span{data + at, std::min(kBlock, whole - at) / kGroup, 0};
      block(span);
    }
    if (whole < numel) tail(data + whole, numel - whole);
    state_.numel += numel;
    state_.signed_max = *std::max_element(signed_max_, signed_max_ + kChains);
    state_.unsigned_max = *std::max_element(unsigned_max_, unsigned_max_ + kChains);
    state_.unsigned_min = *std::min_element(unsigned_min_, unsigned_min_ + kChains);
    state_.absmin_less_1 = *std::min_element(absmin_less_1_, absmin_less_1_ + kChains);
    for (std::size_t c = 0; c < kChains; ++c) {
      state_.sum[c] = sum_[place_of_chain<F>(c)];
      state_.sum_sq[c] = sum_sq_[place_of_chain<F>(c)];
    }
  }

 private:
  void block(const Span<F>& span) {
    const BitsTag<F> d;
    Bits<F> smax;
    Unsigned<F> umax;
    Unsigned<F> umin;
    Unsigned<F> amin;
    double sum[kChains];
    double sum_sq[kChains];
    std::memset(sum, 0, sizeof sum);
    std::memset(sum_sq, 0, sizeof sum_sq);
    const std::size_t zeros = fast_look<F>(span, smax, umax, umin, amin, sum, sum_sq);
    auto absmax = hn::Max(smax, magnitude<F>(hn::BitCast(d, umax)));
    const bool all_finite = !any_from(absmax, cuts_.first_non_finite);
    if (!all_finite) {
      count_non_finite(span);
      masked_extremes<F>(span, cuts_, smax, umax, umin, amin);
      absmax = hn::Max(smax, magnitude<F>(hn::BitCast(d, umax)));
    }
    finish(span, zeros, smax, umax, umin, amin, absmax);
    if (zeros == span.elements()) return;
    const bool in_range = !any_from(absmax, static_cast<std::uint64_t>(F::kSumBelow)) &&
                          (F::kSumFrom == 0 || any_from(absmax, static_cast<std::uint64_t>(F::kSumFrom)));
    if (all_finite && in_range) {
      for (std::size_t c = 0; c < kChains; ++c) {
        sum_[c] += sum[c];
        sum_sq_[c] += sum_sq[c];
      }
    } else {
      careful_sums<F>(span, cuts_, sum_, sum_sq_, state_);
    }
  }

  // Fewer elements than a group: copied, so that nothing beyond them is read.
  void tail(const typename F::Raw* data, std::size_t numel) {
    typename F::Raw copy[kGroup];
    std::memcpy(copy, data, numel * sizeof *copy);
    std::fill(copy + numel, copy + kGroup, copy[0]);
    const Span<F> span{copy, 1, kGroup - numel};
    const BitsTag<F> d;
    Bits<F> smax;
    Unsigned<F> umax;
    Unsigned<F> umin;
    Unsigned<F> amin;
    masked_extremes<F>(span, cuts_, smax, umax, umin, amin);
    count_non_finite(span);
    const auto absmax = hn::Max(smax, magnitude<F>(hn::BitCast(d, umax)));
    finish(span, count_below<F>(span, 1), smax, umax, umin, amin, absmax);
    std::fill(copy + numel, copy + kGroup, typename F::Raw{0});
    careful_sums<F>(span, cuts_, sum_, sum_sq_, state_);
  }

  // Counts that depend on the thresholds, and extremes, which are those of the finite elements.
  void finish(const Span<F>& span, std::size_t zeros, Bits<F> smax, Unsigned<F> umax, Unsigned<F> umin, Unsigned<F> amin,
              Bits<F> absmax) {
    const UnsignedTag<F> du;
    state_.zero += zeros;
    if (any_from(absmax, cuts_.over_from)) {
      state_.over += count_below<F>(span, cuts_.first_non_finite) - count_below<F>(span, cuts_.over_from);
    }
    const auto any_below = [&](std::uint64_t cut) HWY_ATTR {
      return !hn::AllFalse(du, hn::Lt(amin, hn::Set(du, static_cast<UnsignedWord>(cut - 1))));
    };
    if (any_below(cuts_.subnormal_below)) state_.subnormal += count_below<F>(span, cuts_.subnormal_below) - zeros;
    if (any_below(cuts_.flushed_below)) state_.flushed += count_below<F>(span, cuts_.flushed_below) - zeros;
    const BitsTag<F> d;
    hn::StoreU(hn::Max(hn::LoadU(d, signed_max_), smax), d, signed_max_);
    hn::StoreU(hn::Max(hn::LoadU(du, unsigned_max_), umax), du, unsigned_max_);
    hn::StoreU(hn::Min(hn::LoadU(du, unsigned_min_), umin), du, unsigned_min_);
    hn::StoreU(hn::Min(hn::LoadU(du, absmin_less_1_), amin), du, absmin_less_1_);
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

  const Cuts& cuts_;
  State& state_;
  // One value a lane, in memory so that they outlive a block.
  Word signed_max_[kChains];
  UnsignedWord unsigned_max_[kChains];
  UnsignedWord unsigned_min_[kChains];
  UnsignedWord absmin_less_1_[kChains];
  double sum_[kChains];
  double sum_sq_[kChains];
};

template <class F>
void add(const void* data, std::size_t numel, const Cuts& cuts, State& state) {
  Pass<F>(cuts, state).run(static_cast<const typename F::Raw*>(data), numel);
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
