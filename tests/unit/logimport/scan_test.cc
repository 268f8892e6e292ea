#include "server/logimport/scan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <stdexcept>
#include <string>

namespace scalewatch::logimport {
namespace {

std::string lowered(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return text;
}

TEST(ScanTest, FindsWhatAPlainSearchFinds) {
  const std::vector<std::string> words{"loss", "Loss is", "ossl", "s: [", "step=", "aaaa", "AAAAA", "it/s"};
  const WordScan scan(words);
  const std::string alphabet = "loLOsS: [teEpP=aAi/";
  std::mt19937_64 random(5);
  std::size_t found = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (std::size_t i = random() % 60; i > 0; --i) {
      if (random() % 6 == 0) {
        text += words[random() % words.size()];
      } else {
        text += alphabet[random() % alphabet.size()];
      }
    }
    // Somewhere in a block.
    const std::size_t before = random() % 200;
    const std::string block = std::string(before, 's') + text + std::string(random() % 80, 's');
    Marks marks;
    marks.look(block, scan.heads());
    std::vector<WordScan::Hit> hits;
    scan.find(std::string_view(block).substr(before, text.size()), marks.heads(), before, hits);
    std::size_t expected = 0;
    for (std::uint32_t w = 0; w < words.size(); ++w) {
      const std::string word = lowered(words[w]);
      for (std::size_t at = lowered(text).find(word); at != std::string::npos; at = lowered(text).find(word, at + 1)) {
        ++expected;
        const bool hit =
            std::any_of(hits.begin(), hits.end(), [&](const WordScan::Hit& h) { return h.position == at && h.word == w; });
        EXPECT_TRUE(hit) << words[w] << " at " << at << " of " << text;
      }
    }
    ASSERT_EQ(hits.size(), expected) << text;
    EXPECT_TRUE(std::is_sorted(hits.begin(), hits.end(), [](const auto& a, const auto& b) { return a.position < b.position; }));
    found += expected;
  }
  EXPECT_GT(found, 1000U);
}

TEST(ScanTest, ShortWordsAreAMistake) {
  EXPECT_THROW(WordScan({"abc"}), std::logic_error);
}

}  // namespace
}  // namespace scalewatch::logimport
