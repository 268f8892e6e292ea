#include "deploy/demo/arithmetic.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace scalewatch::demo {
namespace {

TEST(Arithmetic, DotProductsAreAccumulatedInFp32AndRoundedOnce) {
  // In fp16 a sum of ones stops at 2048, where the next number is 2 away; the tensor core's way gets to 4096.
  const std::vector<float> ones(4096, 1.0F);
  std::array<float, 1> sum{};
  multiply(ones, ones, sum, 1, ones.size(), 1);
  std::array<Half, 1> rounded{};
  round_to(sum, rounded);
  EXPECT_EQ(static_cast<float>(rounded[0]), 4096.0F);
}

TEST(Arithmetic, RoundsAsFp16Does) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::array<float, 8> from{65519.0F, 65520.0F, -65520.0F, 0x1p-25F, 0x1.8p-25F, 0x1p-24F, 2049.0F, std::nanf("")};
  std::array<Half, 8> to{};
  round_to(from, to);
  std::array<float, 8> back{};
  widen(to, back);
  const std::array<float, 7> expected{65504.0F, inf, -inf, 0.0F, 0x1p-24F, 0x1p-24F, 2048.0F};
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(back[i], expected[i]) << from[i];
  EXPECT_TRUE(std::isnan(back[7]));
}

TEST(Arithmetic, MultipliesMatricesOfUnequalSides) {
  const std::array<double, 6> a{1, 2, 3, 4, 5, 6};                     // 2 × 3
  const std::array<double, 12> b{1, 0, 2, 1, 0, 1, 1, 1, 1, 1, 0, 2};  // 3 × 4
  std::array<double, 8> c{};
  multiply(a, b, c, 2, 3, 4);
  EXPECT_EQ(c, (std::array<double, 8>{4, 5, 4, 9, 10, 11, 13, 21}));
  EXPECT_EQ(transposed<double>(a, 2, 3), (std::vector<double>{1, 4, 2, 5, 3, 6}));
}

TEST(Arithmetic, NothingHidesAnInfinity) {
  // 0 × Inf is NaN: an implementation that leaves zeros out would lose it.
  const std::array<float, 2> a{0.0F, 1.0F};
  const std::array<float, 2> b{std::numeric_limits<float>::infinity(), 1.0F};
  std::array<float, 1> c{};
  multiply(a, b, c, 1, 2, 1);
  EXPECT_TRUE(std::isnan(c[0]));
}

}  // namespace
}  // namespace scalewatch::demo
