#include "server/logimport/number.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>

namespace scalewatch::logimport {
namespace {

struct Case {
  std::string_view text;
  double value;
  std::size_t length;
  double quantum;
};

TEST(NumberTest, ReadsWhatTrainersPrint) {
  for (const Case& c :
       {Case{"12", 12, 2, 1}, Case{"-0.250 x", -0.25, 6, 1e-3}, Case{"+3", 3, 2, 1}, Case{".5", 0.5, 2, 0.1},
        Case{"65536., device", 65536, 6, 1}, Case{"2.73e-02,", 0.0273, 8, 1e-4}, Case{"8.289046e-317", 8.289046e-317, 13, 0},
        Case{"1e-400", 0, 6, 0}, Case{"0.0078125Epoch", 0.0078125, 9, 1e-7}, Case{"2. Reducing", 2, 1, 1},
        Case{"3.05e-05*0.5", 3.05e-05, 8, 1e-7}, Case{"'0.25',", 0.25, 6, 1e-2}, Case{"\"25600\"", 25600, 7, 1},
        Case{"tensor(0.6931, grad_fn=<A>)", 0.6931, 27, 1e-4}, Case{"1,200", 1, 1, 1}}) {
    const auto number = parse_number(c.text);
    ASSERT_TRUE(number) << c.text;
    EXPECT_EQ(number->value, c.value) << c.text;
    EXPECT_EQ(number->length, c.length) << c.text;
    if (c.quantum > 0) {
      EXPECT_NEAR(number->quantum, c.quantum, c.quantum * 1e-9) << c.text;
    }
  }
}

TEST(NumberTest, ReadsNonFiniteWordsButNotWordsThatBeginLikeThem) {
  for (const std::string_view text : {"nan", "NaN,", "-nan ", "nanGradient overflow", "NAN"}) {
    const auto number = parse_number(text);
    ASSERT_TRUE(number) << text;
    EXPECT_TRUE(std::isnan(number->value)) << text;
  }
  EXPECT_EQ(parse_number("inf")->value, std::numeric_limits<double>::infinity());
  EXPECT_EQ(parse_number("-Infinity,")->value, -std::numeric_limits<double>::infinity());
  EXPECT_EQ(parse_number("1e999")->value, std::numeric_limits<double>::infinity());
  for (const std::string_view text :
       {"nano", "info", "infinite", "nan_count", "", "-", ".", "e5", "abc", "'1.5", "tensor(x)"}) {
    EXPECT_FALSE(parse_number(text)) << text;
  }
}

TEST(NumberTest, IsTheNearestDoubleWhateverTheDigits) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 20000; ++i) {
    const double value = std::ldexp(static_cast<double>(random() >> 11), static_cast<int>(random() % 160) - 120);
    for (const char* format : {"%.3f", "%.6g", "%.15g", "%.17g", "%.4e", "%.9f"}) {
      char text[400];
      std::snprintf(text, sizeof(text), format, value);
      const auto number = parse_number(text);
      ASSERT_TRUE(number) << text;
      ASSERT_EQ(number->value, std::strtod(text, nullptr)) << text;
    }
  }
}

TEST(NumberTest, ThousandsSeparatorsOnlyInGroupsOfThree) {
  const auto read = [](std::string_view text) { return *parse_number(text, Separators::kThousands); };
  EXPECT_EQ(read("1,234,567 samples").value, 1234567);
  EXPECT_EQ(read("12_345").value, 12345);
  EXPECT_EQ(read("65536, reducing").value, 65536);
  EXPECT_EQ(read("1,2345").value, 1);
  EXPECT_EQ(read("1,23").value, 1);
  EXPECT_EQ(read("-1,000").value, -1000);
}

TEST(NumberTest, CountsAreWholeAndNotNegative) {
  EXPECT_EQ(parse_number("8192.0")->count(), 8192);
  EXPECT_FALSE(parse_number("0.5")->count());
  EXPECT_FALSE(parse_number("-1")->count());
  EXPECT_FALSE(parse_number("nan")->count());
  EXPECT_FALSE(parse_number("1e300")->count());
}

}  // namespace
}  // namespace scalewatch::logimport
