// Finds any of many words in a text, in any case of letters: what decides which formats look at a line. Where a word may begin
// is found by vectors (marks.h), its first four bytes are looked up in a bitmap, and only where that says so are words
// compared.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "server/logimport/marks.h"

namespace scalewatch::logimport {

class WordScan {
 public:
  struct Hit {
    std::uint32_t position = 0;
    std::uint32_t word = 0;
  };
  static constexpr std::size_t kMinBytes = 4;

  // Throws std::logic_error for a word of less than kMinBytes.
  explicit WordScan(const std::vector<std::string>& words);

  // Of all words, for Marks.
  const Heads& heads() const { return heads_; }

  // Appends every place of every word, in order of position. `places`: Marks::heads() of a block in which the text begins at
  // `at`. Thread-safe.
  void find(std::string_view text, Bits places, std::size_t at, std::vector<Hit>& hits) const;

 private:
  // All lower case. Words that begin with the same four bytes stand side by side.
  struct Word {
    std::uint32_t head = 0;  // its first four bytes
    std::uint32_t word = 0;  // its index
    std::uint64_t next = 0;  // the eight bytes behind them ...
    std::uint64_t mask = 0;  // ... as far as it has them
    std::uint32_t at = 0;    // its bytes in bytes_
    std::uint32_t length = 0;
  };
  // The words that begin with a head in any case of letters.
  struct Slot {
    std::uint32_t head = 0;  // 0: none
    std::uint16_t begin = 0, end = 0;
  };
  static constexpr unsigned kSlotBits = 10;

  std::size_t slot_of(std::uint32_t head) const { return (head * factor_) >> (32 - kSlotBits); }
  // Gives each head a slot of its own.
  void fill_slots();
  // Within find(), which is all that calls it: its own frame would cost as much as it does.
  [[gnu::always_inline]] void compare(const Slot& slot, std::string_view text, std::size_t at, std::vector<Hit>& hits) const;

  Heads heads_;
  std::vector<Word> words_;
  std::string bytes_;
  std::uint32_t factor_ = 0x9e3779b1;  // 2^32 over the golden ratio, odd: spreads to the high bits
  std::array<Slot, std::size_t{1} << kSlotBits> slots_{};
};

}  // namespace scalewatch::logimport
