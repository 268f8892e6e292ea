// A trainer's floating-point modes neither change a result nor are changed.
#include <fenv.h>
#include <gtest/gtest.h>
#include <hwy/detect_compiler_arch.h>
#if HWY_ARCH_X86
#include <xmmintrin.h>
#endif

#include <cfenv>
#include <limits>
#include <vector>

#include "cuda/cpu/measure.h"
#include "tests/unit/cpu/reference.h"

namespace scalewatch::cpu_test {
namespace {

class Environment : public OnEachInstructionSet {};
INSTANTIATE_TEST_SUITE_P(Cpu, Environment, ::testing::ValuesIn(instruction_sets()), name_of_target);

std::vector<float> hard_values() {
  std::vector<float> values;
  for (int i = 0; i < 3000; ++i) {
    values.push_back(i % 2 == 0 ? std::numeric_limits<float>::denorm_min() * static_cast<float>(i + 1) : -1e-40F);
  }
  values[2100] = std::numeric_limits<float>::signaling_NaN();
  values[2500] = std::numeric_limits<float>::infinity();
  return values;
}

#if HWY_ARCH_X86
TEST_P(Environment, FlushToZeroHidesNoSubnormal) {
  const std::vector<float> values = hard_values();
  const Record want = measure(values.data(), DType::kFp32, values.size(), DType::kFp32, 1);
  EXPECT_EQ(want.zero, 0U);
  EXPECT_NE(want.sum, 0);
  EXPECT_NE(want.sum_sq, 0);
  const unsigned before = _mm_getcsr();
  const unsigned flushing = before | 0x8040U;  // FTZ and DAZ
  _mm_setcsr(flushing);
  const Record got = measure(values.data(), DType::kFp32, values.size(), DType::kFp32, 1);
  const unsigned after = _mm_getcsr();
  _mm_setcsr(before);
  EXPECT_EQ(after, flushing);
  expect_identical(got, want, "FTZ and DAZ");
}
#endif

TEST_P(Environment, RoundingModeAndFlagsStay) {
  const std::vector<float> values(5001, 0.1F);
  const Record want = measure(values.data(), DType::kFp32, values.size(), DType::kFp16, 3.7);
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    std::feclearexcept(FE_ALL_EXCEPT);
    std::fesetround(mode);
    const Record got = measure(values.data(), DType::kFp32, values.size(), DType::kFp16, 3.7);
    const int mode_after = std::fegetround();
    const int flags = std::fetestexcept(FE_ALL_EXCEPT);
    std::fesetround(FE_TONEAREST);
    EXPECT_EQ(mode_after, mode);
    EXPECT_EQ(flags, 0);
    expect_identical(got, want, "rounding mode");
  }
}

#if defined(__GLIBC__)
TEST_P(Environment, TrappedExceptionsDoNotKillTheTrainer) {
  const std::vector<float> values = hard_values();
  const std::vector<double> wide(1000, std::numeric_limits<double>::max());
  if (feenableexcept(FE_INVALID | FE_OVERFLOW | FE_DIVBYZERO) == -1) GTEST_SKIP() << "this processor traps none";
  const Record narrow = measure(values.data(), DType::kFp32, values.size(), DType::kFp16, 1);
  const Record great = measure(wide.data(), DType::kFp64, wide.size(), DType::kFp16, 1);
  const int trapped = fegetexcept();
  fedisableexcept(FE_ALL_EXCEPT);
  EXPECT_EQ(trapped, FE_INVALID | FE_OVERFLOW | FE_DIVBYZERO);
  EXPECT_EQ(narrow.nan, 1U);
  EXPECT_EQ(great.over, 1000U);
}
#endif

}  // namespace
}  // namespace scalewatch::cpu_test
