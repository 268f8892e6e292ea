#include "server/logimport/marks.h"

#include <gtest/gtest.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace scalewatch::logimport {
namespace {

std::vector<std::size_t> places(const Bits& bits, std::size_t size) {
  std::vector<std::size_t> all;
  bits.each(0, size, [&](std::size_t at) { all.push_back(at); });
  return all;
}

std::string lowered(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return text;
}

// Each instruction set that the machine has finds the same: every break and no other byte, and a head wherever a word begins.
TEST(MarksTest, OnEachInstructionSet) {
  const std::vector<std::string> words{"loss", "Step=", "it/s", "overflow! skipping", "\xc3\xa4hnlich"};
  const Heads heads(words);
  const std::string alphabet = "los LOSstepP=it/\n\r\x1b\xc3\xa4h!";
  std::mt19937_64 random(11);
  for (int round = 0; round < 400; ++round) {
    std::string text;
    for (std::size_t i = random() % 300; i > 0; --i) {
      text += random() % 12 == 0 ? words[random() % words.size()] : std::string(1, alphabet[random() % alphabet.size()]);
    }
    std::vector<std::size_t> breaks;
    for (std::size_t at = 0; at < text.size(); ++at) {
      if (text[at] == '\n' || text[at] == '\r' || text[at] == '\x1b') breaks.push_back(at);
    }
    std::vector<std::size_t> first;
    bool any = false;
    for (std::int64_t left = hwy::SupportedTargets() & HWY_TARGETS; left != 0; left &= left - 1) {
      const std::int64_t target = left & -left;
      hwy::SetSupportedTargetsForTest(target);
      Marks marks;
      marks.look(text, heads);
      const std::string name = hwy::TargetName(target);
      ASSERT_EQ(places(marks.breaks(), text.size()), breaks) << name << ": " << text;
      const auto found = places(marks.heads(), text.size());
      if (!any) first = found;
      any = true;
      ASSERT_EQ(found, first) << name << ": " << text;
      hwy::SetSupportedTargetsForTest(0);
    }
    ASSERT_TRUE(any);
    for (const std::string& word : words) {
      const std::string low = lowered(text);
      for (std::size_t at = low.find(lowered(word)); at != std::string::npos; at = low.find(lowered(word), at + 1)) {
        EXPECT_TRUE(std::find(first.begin(), first.end(), at) != first.end()) << word << " at " << at << " of " << text;
      }
    }
    EXPECT_LT(first.size(), text.size() / 2 + 8);  // it is of use
  }
}

}  // namespace
}  // namespace scalewatch::logimport
