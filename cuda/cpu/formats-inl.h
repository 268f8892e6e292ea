// How each dtype is loaded and turned into floats. Included once per instruction set.
#if defined(SCALEWATCH_CUDA_CPU_FORMATS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SCALEWATCH_CUDA_CPU_FORMATS_INL_H_
#undef SCALEWATCH_CUDA_CPU_FORMATS_INL_H_
#else
#define SCALEWATCH_CUDA_CPU_FORMATS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "cuda/cpu/kernel.h"

HWY_BEFORE_NAMESPACE();
namespace scalewatch::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A format's Bits are the signed integers that the kernel works in, Raw what lies in memory. Sums are right in float (fp64: in
// plain double) when the largest magnitude's bits of a block are in [kSumFrom, kSumBelow). kInterleaved: to_floats gives the
// even and the odd elements, not the lower and the upper half.
struct Fp64 {
  using Bits = std::int64_t;
  using Raw = std::int64_t;
  static constexpr Bits kSumFrom = 0;
  static constexpr Bits kSumBelow = Bits{1023 + 480} << 52;  // squares and their sum stay in range
  static constexpr bool kInterleaved = false;

  template <class D>
  static HWY_INLINE hn::VFromD<D> load(D d, const Raw* from) {
    return hn::LoadU(d, from);
  }
};

struct Fp32 {
  using Bits = std::int32_t;
  using Raw = std::int32_t;
  static constexpr Bits kSumFrom = Bits{127 - 40} << 23;   // squares that float loses are under 2^-46 of the largest
  static constexpr Bits kSumBelow = Bits{127 + 60} << 23;  // squares and sums of eight stay in range
  static constexpr bool kInterleaved = false;

  template <class D>
  static HWY_INLINE hn::VFromD<D> load(D d, const Raw* from) {
    return hn::LoadU(d, from);
  }
};

struct Fp16 {
  using Bits = std::int16_t;
  using Raw = std::int16_t;
  static constexpr Bits kSumFrom = 0;  // squares of fp16 are normal floats
  static constexpr Bits kSumBelow = 0x7C00;
  static constexpr bool kInterleaved = false;

  template <class D>
  static HWY_INLINE hn::VFromD<D> load(D d, const Raw* from) {
    return hn::LoadU(d, from);
  }

  template <class DF, class V>
  static HWY_INLINE void to_floats(DF df, V v, hn::VFromD<DF>& first, hn::VFromD<DF>& second) {
    const hn::Rebind<hwy::float16_t, DF> dh;
    const hn::Twice<decltype(dh)> d16;
    const auto halves = hn::BitCast(d16, v);
    first = hn::PromoteTo(df, hn::LowerHalf(dh, halves));
    second = hn::PromoteTo(df, hn::UpperHalf(dh, halves));
  }
};

struct Bf16 {
  using Bits = std::int16_t;
  using Raw = std::int16_t;
  static constexpr Bits kSumFrom = (127 - 40) << 7;  // as fp32
  static constexpr Bits kSumBelow = (127 + 60) << 7;
  static constexpr bool kInterleaved = true;

  template <class D>
  static HWY_INLINE hn::VFromD<D> load(D d, const Raw* from) {
    return hn::LoadU(d, from);
  }

  template <class DF, class V>
  static HWY_INLINE void to_floats(DF df, V v, hn::VFromD<DF>& first, hn::VFromD<DF>& second) {
    const hn::RebindToUnsigned<DF> du;
    const auto pairs = hn::BitCast(du, v);
    first = hn::BitCast(df, hn::ShiftLeft<16>(pairs));
    second = hn::BitCast(df, hn::And(pairs, hn::Set(du, 0xFFFF0000U)));
  }
};

// The upper byte of an fp16.
struct E5m2 : Fp16 {
  using Raw = std::uint8_t;

  template <class D>
  static HWY_INLINE hn::VFromD<D> load(D d, const Raw* from) {
    const hn::Rebind<std::uint8_t, D> d8;
    return hn::ShiftLeft<8>(hn::PromoteTo(d, hn::LoadU(d8, from)));
  }
};

// An fp16 of 2^-8 times the value, subnormals included: only the exponent's bias differs.
struct E4m3fn : Fp16 {
  using Raw = std::uint8_t;

  template <class D>
  static HWY_INLINE hn::VFromD<D> load(D d, const Raw* from) {
    const hn::Rebind<std::uint8_t, D> d8;
    const auto wide = hn::PromoteTo(d, hn::LoadU(d8, from));
    const auto sign = hn::And(hn::ShiftLeft<8>(wide), hn::Set(d, INT16_MIN));
    return hn::Or(sign, hn::ShiftLeft<7>(hn::And(wide, hn::Set(d, std::int16_t{0x7F}))));
  }
};

}  // namespace scalewatch::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SCALEWATCH_CUDA_CPU_FORMATS_INL_H_
