// One look at a block of text by vectors: where lines and pieces of them end, where an ANSI code begins, and where one of many
// words may begin.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace scalewatch::logimport {

// How many words begin, in any case of letters: with their first four bytes. They are dealt to sixteen groups, a bit each. A
// byte of a text can be the i-th byte of the words of the groups that both its halves name; where four bytes in a row leave a
// group, one of its words may stand. Immutable. (Eight bytes leave two thirds of the places, and cost more than they spare
// without AVX-512.)
class Heads {
 public:
  static constexpr std::size_t kBytes = 4;
  // Of at least so many bytes each.
  explicit Heads(std::span<const std::string> words);

  // Of eight groups: by byte of a head, and by the low and the high half of a byte of text.
  struct Eight {
    alignas(16) std::array<std::array<std::uint8_t, 16>, kBytes> low{};
    alignas(16) std::array<std::array<std::uint8_t, 16>, kBytes> high{};
  };
  using Tables = std::array<Eight, 2>;
  const Tables& tables() const { return tables_; }

 private:
  Tables tables_;
};

// Bits by place in a text, 64 in a word.
class Bits {
 public:
  Bits() = default;
  explicit Bits(std::span<const std::uint64_t> words) : words_(words) {}
  bool known() const { return !words_.empty(); }
  // Calls back with the places in [begin, end) that are set, rising.
  template <class F>
  void each(std::size_t begin, std::size_t end, F&& call) const {
    for (std::size_t word = begin / 64; word * 64 < end; ++word) {
      std::uint64_t bits = words_[word];
      if (word == begin / 64) bits &= ~std::uint64_t{0} << (begin % 64);
      for (; bits != 0; bits &= bits - 1) {
        const std::size_t at = word * 64 + static_cast<std::size_t>(std::countr_zero(bits));
        if (at >= end) return;
        call(at);
      }
    }
  }

 private:
  std::span<const std::uint64_t> words_;
};

class Marks {
 public:
  // Looks at the text. Until the next look at another:
  void look(std::string_view text, const Heads& heads);
  Bits breaks() const { return Bits(breaks_); }  // \n, \r and ESC
  Bits heads() const { return Bits(heads_); }    // where a word may begin: too many places, and never too few

 private:
  std::vector<std::uint64_t> breaks_, heads_;
};

}  // namespace scalewatch::logimport
