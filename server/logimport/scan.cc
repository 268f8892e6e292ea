#include "server/logimport/scan.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace scalewatch::logimport {
namespace {

// Eight bytes at a time: what is between A and Z gets the bit that makes it lower case.
std::uint64_t lower(std::uint64_t bytes) {
  constexpr std::uint64_t kEach = 0x0101010101010101;
  const std::uint64_t ascii = bytes & 0x7f * kEach;
  const std::uint64_t from_a = ascii + (0x80 - 'A') * kEach;
  const std::uint64_t beyond_z = ascii + (0x7f - 'Z') * kEach;
  const std::uint64_t upper = (from_a ^ beyond_z) & ~bytes & 0x80 * kEach;
  return bytes | upper >> 2;
}

// Up to eight bytes, in lower case; those that are missing are 0.
std::uint64_t eight_of(const char* bytes, std::size_t size) {
  std::uint64_t eight = 0;
  if (size >= sizeof(eight)) {
    std::memcpy(&eight, bytes, sizeof(eight));
  } else {
    std::memcpy(&eight, bytes, size);
  }
  return lower(eight);
}

std::uint32_t four_of(const char* bytes) {
  std::uint32_t four = 0;
  std::memcpy(&four, bytes, sizeof(four));
  return four;
}

// Equal for bytes that differ in the case of letters only (and for some that are no letters).
std::uint32_t fold(std::uint32_t bytes) {
  return bytes | 0x20202020;
}

std::uint32_t hash_of(std::uint32_t folded) {
  constexpr std::uint32_t kGolden = 0x9e3779b1;  // 2^32 over the golden ratio, odd: spreads to the high bits
  return (folded * kGolden) >> 16;
}

std::uint32_t hash_of_head(std::uint32_t four) {
  return hash_of(fold(four));
}

std::uint32_t hash_of_three(std::uint32_t four) {
  return hash_of(fold(four) & 0xffffff);
}

}  // namespace

WordScan::WordScan(const std::vector<std::string>& words) {
  for (std::size_t w = 0; w < words.size(); ++w) {
    const std::string& word = words[w];
    if (word.size() < kMinBytes) throw std::logic_error("word too short to look for: " + word);
    const std::size_t more = std::min(word.size() - kMinBytes, sizeof(Word::next));
    const std::uint64_t mask = more == sizeof(Word::next) ? ~std::uint64_t{0} : (std::uint64_t{1} << (8 * more)) - 1;
    words_.push_back({static_cast<std::uint32_t>(eight_of(word.data(), kMinBytes)), static_cast<std::uint32_t>(w),
                      eight_of(word.data() + kMinBytes, more), mask, static_cast<std::uint32_t>(bytes_.size()),
                      static_cast<std::uint32_t>(word.size())});
    for (const char c : word) bytes_ += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  }
  const auto chain_of = [](const Word& word) { return hash_of_head(word.head) % kChains; };
  std::stable_sort(words_.begin(), words_.end(), [&](const Word& a, const Word& b) { return chain_of(a) < chain_of(b); });
  for (std::uint32_t w = 0; w < words_.size(); ++w) {
    const std::uint32_t head = words_[w].head;
    heads_.set(hash_of_head(head));
    threes_.set(hash_of_three(head));
    threes_.set(hash_of_three(head >> 8));
    Chain& chain = chains_[chain_of(words_[w])];
    if (chain.end == 0) chain.begin = w;
    chain.end = w + 1;
  }
}

void WordScan::compare(std::string_view text, std::size_t at, std::vector<Hit>& hits) const {
  const char* const here = text.data() + at;
  const std::size_t left = text.size() - at;
  const auto head = static_cast<std::uint32_t>(eight_of(here, kMinBytes));
  const std::uint64_t next = eight_of(here + kMinBytes, left - kMinBytes);
  const Chain chain = chains_[hash_of_head(head) % kChains];
  for (std::uint32_t w = chain.begin; w < chain.end; ++w) {
    const Word& word = words_[w];
    if (word.head != head || ((next ^ word.next) & word.mask) != 0 || word.length > left) continue;
    bool same = true;
    for (std::size_t i = kMinBytes + sizeof(next); same && i < word.length; i += sizeof(next)) {
      const std::size_t more = std::min<std::size_t>(word.length - i, sizeof(next));
      same = eight_of(here + i, more) == eight_of(bytes_.data() + word.at + i, more);
    }
    if (same) hits.push_back({static_cast<std::uint32_t>(at), word.word});
  }
}

void WordScan::find(std::string_view text, std::vector<Hit>& hits) const {
  if (text.size() < kMinBytes) return;
  const std::size_t last = text.size() - kMinBytes;  // where a word can begin
  const auto look = [&](std::size_t at) {
    if (heads_.has(hash_of_head(four_of(text.data() + at)))) compare(text, at, hits);
  };
  for (std::size_t at = 0; at <= last; at += 2) {
    if (!threes_.has(hash_of_three(four_of(text.data() + at)))) continue;
    if (at > 0) look(at - 1);
    look(at);
  }
  if (last % 2 != 0) look(last);
}

}  // namespace scalewatch::logimport
