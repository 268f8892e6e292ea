#include "deploy/demo/data.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <string>

namespace scalewatch::demo {
namespace {

// 'a' in the first half, 'b' in the second.
Corpus halves() {
  return Corpus(std::string(1000, 'a') + std::string(1000, 'b'));
}

TEST(Data, SaysWhichTextIsMissing) {
  try {
    Corpus::load("/nonexistent/text");
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("/nonexistent/text"), std::string::npos);
  }
  EXPECT_THROW(Corpus("too short"), std::invalid_argument);
}

TEST(Data, RanksReadTheirOwnPartOfTheText) {
  const Corpus corpus = halves();
  ASSERT_EQ(corpus.vocabulary(), 2U);
  Random random(1);
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    const Batch batch = corpus.sample(random, 500, 8, rank, 2);
    ASSERT_EQ(batch.inputs.size(), 500U * 8);
    for (const auto id : batch.inputs) ASSERT_EQ(id, rank);
    for (const auto id : batch.targets) ASSERT_EQ(id, rank);
  }
}

TEST(Data, TheSameSeedDrawsTheSameSamples) {
  const Corpus corpus = Corpus::load(Corpus::kPath);
  Random one(7);
  Random two(7);
  Random other(8);
  const Batch batch = corpus.sample(one, 64, 8, 0, 1);
  EXPECT_EQ(batch.inputs, corpus.sample(two, 64, 8, 0, 1).inputs);
  EXPECT_NE(batch.inputs, corpus.sample(other, 64, 8, 0, 1).inputs);
}

TEST(Data, ACorruptedRecordReadsAsNaNAndEndsWithTheBatch) {
  Random random(1);
  Batch batch = halves().sample(random, 4, 8, 0, 1);
  corrupt(batch, 3, 4);
  EXPECT_EQ(batch.weights[2], 1.0F);
  EXPECT_TRUE(std::isnan(batch.weights[3]));
}

}  // namespace
}  // namespace scalewatch::demo
