// Sums and sums of squares of a block. Included once per instruction set.
#if defined(SCALEWATCH_CUDA_CPU_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SCALEWATCH_CUDA_CPU_SUMS_INL_H_
#undef SCALEWATCH_CUDA_CPU_SUMS_INL_H_
#else
#define SCALEWATCH_CUDA_CPU_SUMS_INL_H_
#endif

#include <hwy/highway.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "cuda/cpu/formats-inl.h"
#include "cuda/cpu/kernel.h"
#include "cuda/cpu/looks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace scalewatch::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::CappedTag<float, kChains / 2>;
using DoubleTag = hn::CappedTag<double, kChains / 4>;

// Sums of a block whose elements are finite and in the format's fast range. Each group's in turn, then all together.
template <class F>
class FastSums {
 public:
  // Sums of group number `index`, below kBlockGroups.
  HWY_INLINE void add_group(const typename F::Bits* HWY_RESTRICT group, std::size_t index) {
    const FloatTag df;
    const std::size_t lanes = hn::Lanes(df);
    for (std::size_t chain = 0; chain < kChains; chain += lanes) {
      auto sum = hn::Zero(df);
      auto sum_sq = hn::Zero(df);
      for (std::size_t row = 0; row < kGroupRows; ++row) {
        const auto x = F::floats(df, group + row * kChains, chain);
        sum = hn::Add(sum, x);
        sum_sq = F::kExactSquares ? hn::MulAdd(x, x, sum_sq) : hn::Add(sum_sq, hn::Mul(x, x));
      }
      hn::Store(sum, df, sums_[index] + chain);
      hn::Store(sum_sq, df, sums_[index] + kChains + chain);
    }
  }

  // Adds all to the chains, pairwise by groups first: the error stays under 12 * 2^-24.
  HWY_INLINE void add_to(std::size_t groups, double* HWY_RESTRICT sum, double* HWY_RESTRICT sum_sq) {
    const FloatTag df;
    const std::size_t lanes = hn::Lanes(df);
    for (std::size_t step = 1; step < groups; step *= 2) {
      for (std::size_t i = 0; i + step < groups; i += 2 * step) {
        for (std::size_t at = 0; at < 2 * kChains; at += lanes) {
          hn::Store(hn::Add(hn::Load(df, sums_[i] + at), hn::Load(df, sums_[i + step] + at)), df, sums_[i] + at);
        }
      }
    }
    for (std::size_t chain = 0; chain < kChains; ++chain) {
      sum[chain] += static_cast<double>(sums_[0][chain]);
      sum_sq[chain] += static_cast<double>(sums_[0][kChains + chain]);
    }
  }

 private:
  alignas(64) float sums_[kBlockGroups][2 * kChains];
};

template <>
class FastSums<Fp64> {
 public:
  HWY_INLINE void add_group(const std::int64_t* HWY_RESTRICT group, std::size_t index) {
    const DoubleTag df;
    const hn::RebindToSigned<DoubleTag> d;
    const std::size_t lanes = hn::Lanes(df);
    for (std::size_t chain = 0; chain < kChains; chain += lanes) {
      auto sum = index == 0 ? hn::Zero(df) : hn::Load(df, sums_ + chain);
      auto sum_sq = index == 0 ? hn::Zero(df) : hn::Load(df, sums_ + kChains + chain);
      for (std::size_t row = 0; row < kGroupRows; ++row) {
        const auto x = hn::BitCast(df, hn::LoadU(d, group + row * kChains + chain));
        sum = hn::Add(sum, x);
        sum_sq = hn::Add(sum_sq, hn::Mul(x, x));
      }
      hn::Store(sum, df, sums_ + chain);
      hn::Store(sum_sq, df, sums_ + kChains + chain);
    }
  }

  HWY_INLINE void add_to(std::size_t, double* HWY_RESTRICT sum, double* HWY_RESTRICT sum_sq) {
    for (std::size_t chain = 0; chain < kChains; ++chain) {
      sum[chain] += sums_[chain];
      sum_sq[chain] += sums_[kChains + chain];
    }
  }

 private:
  alignas(64) double sums_[2 * kChains];
};

// Sums of the finite elements, whatever their magnitudes: all in double.
template <class F>
void careful_sums(const Span<F>& span, double* HWY_RESTRICT sum, double* HWY_RESTRICT sum_sq, State&) {
  const DoubleTag dd;
  const hn::Rebind<float, DoubleTag> df;
  const std::size_t lanes = hn::Lanes(dd);
  const auto limit = hn::Set(df, F::kNonFinite);
  for (std::size_t row = 0; row < span.padded; row += kChains) {
    for (std::size_t chain = 0; chain < kChains; chain += lanes) {
      const auto x = F::floats(df, span.data + row, chain);
      const auto finite = hn::PromoteTo(dd, hn::IfThenElseZero(hn::Lt(hn::Abs(x), limit), x));
      hn::StoreU(hn::Add(hn::LoadU(dd, sum + chain), finite), dd, sum + chain);
      hn::StoreU(hn::Add(hn::LoadU(dd, sum_sq + chain), hn::Mul(finite, finite)), dd, sum_sq + chain);
    }
  }
}

// fp64 element by element, with the huge ones scaled down.
template <>
void careful_sums<Fp64>(const Span<Fp64>& span, double* HWY_RESTRICT sum, double* HWY_RESTRICT sum_sq, State& state) {
  double huge_sum = 0;
  double huge_sum_sq = 0;
  for (std::size_t i = 0; i < span.padded; ++i) {
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
}

}  // namespace scalewatch::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SCALEWATCH_CUDA_CPU_SUMS_INL_H_
