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

std::uint32_t four_of(const char* bytes) {
  std::uint32_t four = 0;
  std::memcpy(&four, bytes, sizeof(four));
  return four;
}

// Up to eight bytes, in lower case; those that are missing are 0.
std::uint64_t eight_of(const char* bytes, std::size_t size) {
  std::uint64_t eight = 0;
  if (size >= sizeof(eight)) {
    std::memcpy(&eight, bytes, sizeof(eight));
  } else {
    for (std::size_t i = size; i > 0; --i) eight = eight << 8 | static_cast<unsigned char>(bytes[i - 1]);
  }
  return lower(eight);
}

// Equal for bytes that differ in the case of letters only (and for some that are no letters).
std::uint32_t fold(std::uint32_t bytes) {
  return bytes | 0x20202020;
}

}  // namespace

WordScan::WordScan(const std::vector<std::string>& words) : heads_(words) {
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
  std::stable_sort(words_.begin(), words_.end(), [](const Word& a, const Word& b) { return fold(a.head) < fold(b.head); });
  fill_slots();
}

void WordScan::fill_slots() {
  // Of a few hundred heads some factor among the next ones keeps all apart.
  constexpr int kTries = 100'000;
  for (int left = kTries; left > 0; --left, factor_ += 2) {
    slots_.fill({});
    bool apart = true;
    for (std::size_t w = 0; w < words_.size() && apart; ++w) {
      const std::uint32_t head = fold(words_[w].head);
      Slot& slot = slots_[slot_of(head)];
      apart = slot.head == 0 || slot.head == head;
      if (slot.head == 0) slot = {head, static_cast<std::uint16_t>(w), 0};
      slot.end = static_cast<std::uint16_t>(w + 1);
    }
    if (apart) return;
  }
  throw std::logic_error("too many words to look for");
}

inline void WordScan::compare(const Slot& slot, std::string_view text, std::size_t at, std::vector<Hit>& hits) const {
  const char* const here = text.data() + at;
  const std::size_t left = text.size() - at;
  const auto head = static_cast<std::uint32_t>(lower(four_of(here)));
  const std::uint64_t next = eight_of(here + kMinBytes, left - kMinBytes);
  for (std::uint32_t w = slot.begin; w < slot.end; ++w) {
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

void WordScan::find(std::string_view text, Bits places, std::size_t at, std::vector<Hit>& hits) const {
  if (text.size() < kMinBytes) return;
  const char* const block = text.data() - at;
  places.each(at, at + text.size() - (kMinBytes - 1), [&](std::size_t place) {
    const std::uint32_t head = fold(four_of(block + place));
    const Slot& slot = slots_[slot_of(head)];
    if (slot.head == head) compare(slot, text, place - at, hits);
  });
}

}  // namespace scalewatch::logimport
