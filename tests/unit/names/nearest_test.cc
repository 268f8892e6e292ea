#include "server/names/nearest.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace scalewatch::names {
namespace {

TEST(Nearest, KnowsExchangedLettersAndGivesUpOnOtherWords) {
  const std::vector<std::string> words{"show", "scaler", "heatmap"};
  EXPECT_EQ(nearest("shwo", words), "show");
  EXPECT_EQ(nearest("heat", words), "heatmap");
  EXPECT_EQ(nearest("scalr", words), "scaler");
  EXPECT_EQ(nearest("whatever", words), "");
  EXPECT_EQ(nearest("", words), "");
  EXPECT_EQ(nearest("show", {}), "");
  EXPECT_EQ(nearest(std::string(5000, 's'), words), "");
}

TEST(NearestNames, AreOfferedNearestFirst) {
  NearestNames near("layers.3.atn.weight");
  for (const char* name : {"layers.3.attn.weight", "embedding", "layers.3.attn.bias", "layers.30.attn.weight", "head"})
    near.offer(name);
  EXPECT_EQ(near.text(), R"(; nearest: "layers.3.attn.weight", "layers.30.attn.weight", "layers.3.attn.bias")");
  EXPECT_EQ(NearestNames("x").text(), "");
  EXPECT_EQ(slips("kitten", "sitting"), 3U);
  EXPECT_EQ(slips("heatmpa", "heatmap"), 1U);
  EXPECT_EQ(slips("", std::string(500, 'x')), 500U);
}

}  // namespace
}  // namespace scalewatch::names
