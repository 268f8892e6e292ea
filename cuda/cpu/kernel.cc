// The SIMD kernel, compiled once for each instruction set and chosen at run time.
//
// A block is looked at once for extremes, zeros and sums. Only where that look shows that there is something to count, or that
// float can't hold the sums, the block, still in the cache, is looked at again.

#include "cuda/cpu/kernel.h"

// GCC before 12.3 miscompiles a 16-bit multiplication in Highway's portable target (PR 106322). The kernel multiplies no
// 16-bit integers, and the tests run that target over every pattern.
#define HWY_BROKEN_EMU128 0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cuda/cpu/kernel.cc"
#include <hwy/foreach_target.h>
// Highway's own order: foreach_target.h comes first.
#include <hwy/highway.h>

#include "cuda/cpu/kernel-inl.h"

#if HWY_ONCE
namespace scalewatch::cpu {

HWY_EXPORT(add_fp64);
HWY_EXPORT(add_fp32);
HWY_EXPORT(add_fp16);
HWY_EXPORT(add_bf16);
HWY_EXPORT(add_e4m3fn);
HWY_EXPORT(add_e5m2);
HWY_EXPORT(name_of_target);

const char* target_name() noexcept {
  return HWY_DYNAMIC_DISPATCH(name_of_target)();
}

std::int64_t compiled_targets() noexcept {
  return HWY_TARGETS;
}

void add_elements(const void* data, DType dtype, std::size_t numel, const Cuts& cuts, State& state) noexcept {
  switch (dtype) {
    case DType::kFp64:
      return HWY_DYNAMIC_DISPATCH(add_fp64)(data, numel, cuts, state);
    case DType::kFp32:
      return HWY_DYNAMIC_DISPATCH(add_fp32)(data, numel, cuts, state);
    case DType::kFp16:
      return HWY_DYNAMIC_DISPATCH(add_fp16)(data, numel, cuts, state);
    case DType::kBf16:
      return HWY_DYNAMIC_DISPATCH(add_bf16)(data, numel, cuts, state);
    case DType::kE4m3fn:
      return HWY_DYNAMIC_DISPATCH(add_e4m3fn)(data, numel, cuts, state);
    case DType::kE5m2:
      return HWY_DYNAMIC_DISPATCH(add_e5m2)(data, numel, cuts, state);
    case DType::kUnspecified:
      return;
  }
}

}  // namespace scalewatch::cpu
#endif  // HWY_ONCE
