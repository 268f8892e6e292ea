// Extremes and counts of a block. Included once per instruction set.
#if defined(SCALEWATCH_CUDA_CPU_LOOKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SCALEWATCH_CUDA_CPU_LOOKS_INL_H_
#undef SCALEWATCH_CUDA_CPU_LOOKS_INL_H_
#else
#define SCALEWATCH_CUDA_CPU_LOOKS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "cuda/cpu/formats-inl.h"
#include "cuda/cpu/kernel.h"

HWY_BEFORE_NAMESPACE();
namespace scalewatch::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Lanes of the widest vector that is used, 64 bytes.
template <class F>
inline constexpr std::size_t kMaxLanes = 64 / sizeof(typename F::Bits);
// Vectors are looked at in fours.
inline constexpr std::size_t kUnrolled = 4;

template <class F>
using BitsTag = hn::CappedTag<typename F::Bits, kMaxLanes<F>>;
template <class F>
using UnsignedTag = hn::RebindToUnsigned<BitsTag<F>>;
template <class F>
using Bits = hn::VFromD<BitsTag<F>>;
template <class F>
using Unsigned = hn::VFromD<UnsignedTag<F>>;

// Elements in memory, as many as whole rows and whole fours of vectors hold. The last pad elements repeat the first one and are
// not part of the tensor.
template <class F>
struct Span {
  const typename F::Bits* data;
  std::size_t padded;
  std::size_t pad;

  [[nodiscard]] std::size_t elements() const { return padded - pad; }
};

template <class F>
HWY_INLINE Bits<F> magnitude(Bits<F> v) {
  return hn::And(v, hn::Set(BitsTag<F>(), hwy::LimitsMax<typename F::Bits>()));
}

// Calls fold for each vector of a span's or a group's elements.
template <class F, class Fold>
HWY_INLINE void each_vector(const typename F::Bits* HWY_RESTRICT data, std::size_t count, const Fold& fold) {
  const BitsTag<F> d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t i = 0; i < count; i += kUnrolled * lanes) {
    for (std::size_t j = 0; j < kUnrolled; ++j) fold(hn::LoadU(d, data + i + j * lanes));
  }
}

// Total of counts kept a lane each, at most 128 in a lane.
template <class F>
HWY_INLINE std::size_t total_count(Bits<F> counts) {
  const BitsTag<F> d;
  if constexpr (sizeof(typename F::Bits) == 1) {
    const hn::Repartition<std::uint64_t, BitsTag<F>> d64;
    return static_cast<std::size_t>(hn::GetLane(hn::SumOfLanes(d64, hn::SumsOf8(hn::BitCast(UnsignedTag<F>(), counts)))));
  } else {
    return static_cast<std::size_t>(hn::GetLane(hn::SumOfLanes(d, counts)));
  }
}

// Adds one to the lanes of a mask.
template <class F, class M>
HWY_INLINE Bits<F> count_lanes(Bits<F> counts, M mask) {
  const BitsTag<F> d;
#if HWY_TARGET <= HWY_AVX3
  return hn::IfThenElse(mask, hn::Add(counts, hn::Set(d, 1)), counts);
#else
  return hn::Sub(counts, hn::VecFromMask(d, mask));
#endif
}

// Elements whose magnitude is below a cut.
template <class F>
std::size_t count_below(const Span<F>& span, std::uint64_t cut) {
  const BitsTag<F> d;
  const auto limit = hn::Set(d, static_cast<typename F::Bits>(cut));
  auto count = hn::Zero(d);
  each_vector<F>(span.data, span.padded,
                 [&](Bits<F> v) HWY_ATTR { count = count_lanes<F>(count, hn::Lt(magnitude<F>(v), limit)); });
  const bool first_below = hn::GetLane(magnitude<F>(hn::LoadU(d, span.data))) < static_cast<typename F::Bits>(cut);
  return total_count<F>(count) - (first_below ? span.pad : 0);
}

// Elements whose bits, sign included, equal a pattern.
template <class F>
std::size_t count_equal(const Span<F>& span, std::uint64_t pattern) {
  const BitsTag<F> d;
  const auto wanted = hn::Set(d, static_cast<typename F::Bits>(pattern));
  auto count = hn::Zero(d);
  each_vector<F>(span.data, span.padded, [&](Bits<F> v) HWY_ATTR { count = count_lanes<F>(count, hn::Eq(v, wanted)); });
  const bool first_equal = hn::GetLane(hn::LoadU(d, span.data)) == static_cast<typename F::Bits>(pattern);
  return total_count<F>(count) - (first_equal ? span.pad : 0);
}

// Zeros, non-zero elements whose magnitude is below a cut, and the smallest (magnitude - 1) of all: zero wraps to the largest.
template <class F>
void look_at_small(const Span<F>& span, std::uint64_t cut, std::size_t& zeros, std::size_t& small,
                   Unsigned<F>& smallest_less_1) {
  const BitsTag<F> d;
  const UnsignedTag<F> du;
  const auto limit = hn::Set(d, static_cast<typename F::Bits>(cut));
  auto below_1 = hn::Zero(d);
  auto below_limit = hn::Zero(d);
  auto less_1 = hn::Set(du, hwy::LimitsMax<hn::TFromD<UnsignedTag<F>>>());
  each_vector<F>(span.data, span.padded, [&](Bits<F> v) HWY_ATTR {
    const auto mag = magnitude<F>(v);
    below_1 = count_lanes<F>(below_1, hn::Eq(mag, hn::Zero(d)));
    below_limit = count_lanes<F>(below_limit, hn::Lt(mag, limit));
    less_1 = hn::Min(less_1, hn::Sub(hn::BitCast(du, mag), hn::Set(du, 1)));
  });
  const auto first = hn::GetLane(magnitude<F>(hn::LoadU(d, span.data)));
  zeros = total_count<F>(below_1) - (first == 0 ? span.pad : 0);
  small = total_count<F>(below_limit) - (first < static_cast<typename F::Bits>(cut) ? span.pad : 0) - zeros;
  smallest_less_1 = less_1;
}

// Extremes of a group, finite or not.
template <class F>
HWY_INLINE void fold_group(const typename F::Bits* HWY_RESTRICT group, Bits<F>& signed_max, Unsigned<F>& unsigned_max,
                           Bits<F>& magnitude_min) {
  const UnsignedTag<F> du;
  each_vector<F>(group, kGroup, [&](Bits<F> v) HWY_ATTR {
    signed_max = hn::Max(signed_max, v);
    unsigned_max = hn::Max(unsigned_max, hn::BitCast(du, v));
    magnitude_min = hn::Min(magnitude_min, magnitude<F>(v));
  });
}

// Extremes of the finite elements only.
template <class F>
void finite_extremes(const Span<F>& span, const Cuts& cuts, Bits<F>& signed_max, Unsigned<F>& unsigned_max,
                     Bits<F>& magnitude_min) {
  const BitsTag<F> d;
  const UnsignedTag<F> du;
  const auto limit = hn::Set(d, static_cast<typename F::Bits>(cuts.first_non_finite));
  const auto lowest = hn::Set(d, hwy::LimitsMin<typename F::Bits>());
  const auto highest = hn::Set(d, hwy::LimitsMax<typename F::Bits>());
  signed_max = lowest;
  unsigned_max = hn::Zero(du);
  magnitude_min = highest;
  each_vector<F>(span.data, span.padded, [&](Bits<F> v) HWY_ATTR {
    const auto mag = magnitude<F>(v);
    const auto finite = hn::VecFromMask(d, hn::Lt(mag, limit));
    signed_max = hn::Max(signed_max, hn::Or(hn::And(finite, v), hn::AndNot(finite, lowest)));
    unsigned_max = hn::Max(unsigned_max, hn::BitCast(du, hn::And(v, finite)));
    magnitude_min = hn::Min(magnitude_min, hn::Or(mag, hn::AndNot(finite, highest)));
  });
}

}  // namespace scalewatch::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SCALEWATCH_CUDA_CPU_LOOKS_INL_H_
