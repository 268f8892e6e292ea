// Compiled once for each instruction set and chosen at run time. The way to find heads is Teddy's (Hyperscan, and Rust's
// aho-corasick).
#include "server/logimport/marks.h"

#include <algorithm>
#include <cstring>

// See cuda/cpu/kernel.cc: nothing is multiplied here.
#define HWY_BROKEN_EMU128 0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "server/logimport/marks.cc"
#include <hwy/foreach_target.h>
// Highway's own order: foreach_target.h comes first.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace scalewatch::logimport::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Fills so many words of bits from 64 bytes of text each; three bytes more are read.
void mark(const Heads::Tables& tables, const char* text, std::size_t words, std::uint64_t* breaks, std::uint64_t* heads) {
  const hn::CappedTag<std::uint8_t, 64> d;
  using V = hn::VFromD<decltype(d)>;
  const std::size_t lanes = hn::Lanes(d);
  const V fold = hn::Set(d, 0x20);
  const V half = hn::Set(d, 0x0f);
  const auto bits_of = [&](auto mask) {
    std::array<std::uint8_t, 8> bytes{};
    hn::StoreMaskBits(d, mask, bytes.data());
    std::uint64_t bits = 0;
    std::memcpy(&bits, bytes.data(), sizeof(bits));
    return bits;
  };
  const auto table = [&](const std::array<std::uint8_t, 16>& bytes) { return hn::LoadDup128(d, bytes.data()); };
  for (std::size_t word = 0; word < words; ++word) {
    std::uint64_t line_bits = 0;
    std::uint64_t head_bits = 0;
    for (std::size_t lane = 0; lane < 64; lane += lanes) {
      const char* const at = text + word * 64 + lane;
      const V bytes = hn::LoadU(d, reinterpret_cast<const std::uint8_t*>(at));
      const auto ends = hn::Or(hn::Eq(bytes, hn::Set(d, '\n')), hn::Eq(bytes, hn::Set(d, '\r')));
      line_bits |= bits_of(hn::Or(ends, hn::Eq(bytes, hn::Set(d, 0x1b)))) << lane;
      V first = hn::Set(d, 0xff);
      V second = first;
      const auto follow = [&](std::size_t i) {
        const V folded = hn::Or(hn::LoadU(d, reinterpret_cast<const std::uint8_t*>(at + i)), fold);
        const V low = hn::And(folded, half);
        const V high = hn::And(hn::ShiftRight<4>(folded), half);
        first = hn::And(first, hn::And(hn::TableLookupBytes(table(tables[0].low[i]), low),
                                       hn::TableLookupBytes(table(tables[0].high[i]), high)));
        second = hn::And(second, hn::And(hn::TableLookupBytes(table(tables[1].low[i]), low),
                                         hn::TableLookupBytes(table(tables[1].high[i]), high)));
      };
      for (std::size_t i = 0; i < Heads::kBytes; ++i) follow(i);
      head_bits |= bits_of(hn::Ne(hn::Or(first, second), hn::Zero(d))) << lane;
    }
    breaks[word] = line_bits;
    heads[word] = head_bits;
  }
}

}  // namespace scalewatch::logimport::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace scalewatch::logimport {

HWY_EXPORT(mark);

Heads::Heads(std::span<const std::string> words) {
  constexpr std::size_t kGroups = 16;
  // Words that begin alike go to one group: its first bytes are few then, and so are the places that only look like it.
  std::vector<std::string> sorted;
  for (const std::string& word : words) {
    std::string& head = sorted.emplace_back(word.substr(0, kBytes));
    head.resize(kBytes);
    for (char& c : head) c = static_cast<char>(c | 0x20);
  }
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  for (std::size_t h = 0; h < sorted.size(); ++h) {
    const std::size_t group = h * kGroups / sorted.size();
    Eight& eight = tables_[group / 8];
    const auto bit = static_cast<std::uint8_t>(1U << (group % 8));
    for (std::size_t i = 0; i < kBytes; ++i) {
      const auto byte = static_cast<unsigned char>(sorted[h][i]);
      eight.low[i][byte & 15] |= bit;
      eight.high[i][byte >> 4] |= bit;
    }
  }
}

void Marks::look(std::string_view text, const Heads& heads) {
  constexpr std::size_t kRest = Heads::kBytes - 1;  // of a head behind its first byte
  const std::size_t words = text.size() / 64 + 1;
  breaks_.resize(words);
  heads_.resize(words);
  const std::size_t whole = text.size() < kRest ? 0 : (text.size() - kRest) / 64;
  HWY_DYNAMIC_DISPATCH(mark)(heads.tables(), text.data(), whole, breaks_.data(), heads_.data());
  // What is left, as if zeros followed.
  std::array<char, 3 * 64> end{};
  const std::size_t left = text.size() - whole * 64;
  std::memcpy(end.data(), text.data() + whole * 64, left);
  HWY_DYNAMIC_DISPATCH(mark)(heads.tables(), end.data(), words - whole, breaks_.data() + whole, heads_.data() + whole);
}

}  // namespace scalewatch::logimport
#endif  // HWY_ONCE
