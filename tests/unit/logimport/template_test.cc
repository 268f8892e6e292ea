#include "server/logimport/template.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace scalewatch::logimport {
namespace {

std::optional<Reading> match(const Template& made, std::string_view text, std::size_t* end = nullptr) {
  Template::Match found;
  Reading reading;
  if (!made.match(text, 0, found) || !found.apply(reading)) return std::nullopt;
  if (end != nullptr) *end = found.end();
  return reading;
}

TEST(TemplateTest, HolesTakeNumbersTextAndBlanks) {
  const Template made("Module {tensor} of step {step}:{ws}scale {scale~}, {...}norm {grad_norm}");
  EXPECT_EQ(made.anchor(), "Module ");
  std::size_t end = 0;
  const auto reading = match(made, "Module fc.1 of step 1,200:   scale 0.50, so the norm -nan and more", &end);
  ASSERT_TRUE(reading);
  EXPECT_EQ(reading->tensor, "fc.1");
  EXPECT_EQ(reading->step, 1200);
  EXPECT_EQ(reading->scale, 0.5);
  EXPECT_DOUBLE_EQ(reading->scale_quantum, 0.01);
  EXPECT_EQ(end, std::string_view("Module fc.1 of step 1,200:   scale 0.50, so the norm -nan").size());
  EXPECT_FALSE(match(made, "Module fc.1 of step x: scale 1, norm 2"));
  EXPECT_FALSE(match(made, "Module fc.1 of step 1.5: scale 1, norm 2"));  // a step is whole
  EXPECT_FALSE(match(made, "Module fc.1 of step 1: scale 1, norm"));
  EXPECT_FALSE(match(made, "Module fc.1"));
}

TEST(TemplateTest, OptionalPartsLeaveNothingBehindWhenTheyFail) {
  const Template made("Scale[[ of {scaler} in {tensor} now]] is {scale}[[ (was {scale_before})]]");
  auto reading = match(made, "Scale of 3 in x now is 4.0 (was 8.0)");
  ASSERT_TRUE(reading);
  EXPECT_EQ(reading->scaler, 3U);
  EXPECT_EQ(reading->scale_before, 8);
  reading = match(made, "Scale is 4.0 (was what)");
  ASSERT_TRUE(reading);
  EXPECT_FALSE(reading->scaler);
  EXPECT_FALSE(reading->scale_before);
  EXPECT_EQ(reading->scale, 4);
  EXPECT_FALSE(match(made, "Scale of 3 is 4.0"));
}

TEST(TemplateTest, TextHolesAreBounded) {
  const Template made("Name {tensor}, end");
  EXPECT_TRUE(match(made, "Name " + std::string(100, 'x') + ", end"));
  EXPECT_FALSE(match(made, "Name " + std::string(1000, 'x') + ", end"));
}

TEST(TemplateTest, MistakesOfProgrammersAreSaid) {
  for (const std::string_view text : {"{step} steps", "ab {step}", "loss {nothing}", "loss {step", "loss [[ open", ""}) {
    EXPECT_THROW(Template{text}, std::logic_error) << text;
  }
}

}  // namespace
}  // namespace scalewatch::logimport
