// The other tests of this folder run on every instruction set that kernel and machine share: here is which ones those are.
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "cuda/cpu/kernel.h"
#include "cuda/cpu/measure.h"
#include "tests/unit/cpu/reference.h"

namespace scalewatch::cpu_test {
namespace {

bool covered(std::int64_t target) {
  const std::vector<std::int64_t> sets = instruction_sets();
  return std::find(sets.begin(), sets.end(), target) != sets.end();
}

TEST(Coverage, EveryInstructionSetOfThisMachineIsTested) {
  std::string tested;
  for (const std::int64_t target : instruction_sets()) tested += std::string(" ") + hwy::TargetName(target);
  std::string untested;
  for (std::int64_t rest = cpu::compiled_targets(); rest != 0; rest &= rest - 1) {
    if (!covered(rest & -rest)) untested += std::string(" ") + hwy::TargetName(rest & -rest);
  }
  std::printf("tested:%s; compiled, but not on this machine:%s\n", tested.c_str(),
              untested.empty() ? " none" : untested.c_str());
  // What measure() chooses by itself is among them.
  std::string chosen = instruction_set();
  EXPECT_NE((tested + " ").find(" " + chosen + " "), std::string::npos) << chosen;
#if HWY_ARCH_X86
  // The processor is asked by another way than Highway's.
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2")) {
    EXPECT_TRUE(covered(HWY_AVX2));
  }
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    EXPECT_TRUE(covered(HWY_AVX3));
  }
  if (__builtin_cpu_supports("sse4.2")) {
    EXPECT_TRUE(covered(HWY_SSE4));
    EXPECT_TRUE(covered(HWY_SSSE3));
  }
  EXPECT_TRUE(covered(HWY_EMU128));
#else
  EXPECT_FALSE(instruction_sets().empty());
#endif
}

}  // namespace
}  // namespace scalewatch::cpu_test
