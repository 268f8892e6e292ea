#include "server/logimport/scan.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace scalewatch::logimport {
namespace {

unsigned char lower(unsigned char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<unsigned char>(c + 32) : c;
}

// Four bytes, equal for words that differ in the case of letters only (and for some that are no letters).
std::uint32_t head_of(const char* bytes) {
  constexpr std::uint32_t kCase = 0x20202020;
  std::uint32_t four = 0;
  std::memcpy(&four, bytes, sizeof(four));
  return four | kCase;
}

std::uint32_t hash_of(std::uint32_t head) {
  constexpr std::uint32_t kGolden = 0x9e3779b1;  // 2^32 over the golden ratio, odd: spreads to the high bits
  return (head * kGolden) >> 16;
}

}  // namespace

WordScan::WordScan(const std::vector<std::string>& words) {
  for (std::size_t w = 0; w < words.size(); ++w) {
    if (words[w].size() < kMinBytes) throw std::logic_error("word too short to look for: " + words[w]);
    words_.push_back({head_of(words[w].data()), static_cast<std::uint32_t>(w), static_cast<std::uint32_t>(bytes_.size()),
                      static_cast<std::uint32_t>(words[w].size())});
    for (const char c : words[w]) bytes_ += static_cast<char>(lower(static_cast<unsigned char>(c)));
  }
  const auto chain_of = [](const Word& word) { return hash_of(word.head) % kChains; };
  std::stable_sort(words_.begin(), words_.end(), [&](const Word& a, const Word& b) { return chain_of(a) < chain_of(b); });
  for (std::uint32_t w = 0; w < words_.size(); ++w) {
    const std::uint32_t hash = hash_of(words_[w].head);
    bitmap_[hash / 64] |= std::uint64_t{1} << (hash % 64);
    Chain& chain = chains_[hash % kChains];
    if (chain.end == 0) chain.begin = w;
    chain.end = w + 1;
  }
}

void WordScan::compare(std::string_view text, std::size_t at, std::uint32_t hash, std::vector<Hit>& hits) const {
  const std::uint32_t head = head_of(text.data() + at);
  const Chain chain = chains_[hash % kChains];
  for (std::uint32_t w = chain.begin; w < chain.end; ++w) {
    const Word& word = words_[w];
    if (word.head != head || word.length > text.size() - at) continue;
    // All of it: the folded head also equals some bytes that are no letters. The fourth byte on differs most.
    const char* bytes = bytes_.data() + word.at;
    const auto same = [&](std::size_t i) {
      return lower(static_cast<unsigned char>(text[at + i])) == static_cast<unsigned char>(bytes[i]);
    };
    std::size_t i = kMinBytes;
    while (i < word.length && same(i)) ++i;
    if (i == word.length && same(0) && same(1) && same(2) && same(3)) {
      hits.push_back({static_cast<std::uint32_t>(at), word.word});
    }
  }
}

void WordScan::find(std::string_view text, std::vector<Hit>& hits) const {
  if (text.size() < kMinBytes) return;
  const std::size_t end = text.size() - kMinBytes + 1;
  for (std::size_t at = 0; at < end; ++at) {
    const std::uint32_t hash = hash_of(head_of(text.data() + at));
    if ((bitmap_[hash / 64] >> (hash % 64) & 1) != 0) compare(text, at, hash, hits);
  }
}

}  // namespace scalewatch::logimport
