// A line as the numbers on it and what stands before each: "loss: 0.5", "loss=0.5", "'loss': 0.5", "| loss 0.5 |",
// "loss 0.43 (0.47)", "[3/300][370/1251]", "lr(Cosine): 1e-3", "grad_norm: tensor(1.2, ...)". No format's words are known here.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "server/logimport/number.h"

namespace scalewatch::logimport {

struct Pair {
  std::string_view key;  // the words before the number; empty: none
  char separator = ' ';  // ':', '=' or ' ' between key and number
  char bracket = 0;      // '[' or '(' right before the number
  bool percent = false;  // a % follows it
  bool unit = false;     // letters follow at once: 18243MB, 2.5s
  bool missing = false;  // None or null stood there
  bool follows = false;  // only blanks and brackets lie between it and the number before
  bool wide = false;     // a tab or two blanks precede the key
  Number number;
  std::optional<Number> second;  // in parentheses behind it
  std::optional<Number> of;      // behind a slash
  std::size_t begin = 0;         // of the key, or of the number without one
  std::size_t end = 0;
};

class Pairs {
 public:
  static constexpr std::size_t kMax = 128;  // a line with more is cut here: no trainer prints so many

  // Reads the whole text; what an earlier text held is gone. Views into it.
  void read(std::string_view text);
  // Forgets all, and adds a number by name: for tables.
  void clear() { count_ = words_count_ = loose_words_ = 0; }
  void add(std::string_view key, const Number& number);

  const Pair* begin() const { return pairs_.data(); }
  const Pair* end() const { return pairs_.data() + count_; }
  std::size_t size() const { return count_; }
  const Pair& operator[](std::size_t i) const { return pairs_[i]; }
  // The pair of exactly this key; null when there is none.
  const Pair* find(std::string_view key) const;

  // Words that belong to no number and stand before the first named one, or alone in brackets: "Train", "Test", "[CV]". At most
  // kMaxWords.
  static constexpr std::size_t kMaxWords = 12;
  const std::string_view* words_begin() const { return words_.data(); }
  const std::string_view* words_end() const { return words_.data() + words_count_; }
  // How many words of the whole text belong to no number.
  std::size_t loose_words() const { return loose_words_; }

 private:
  std::array<Pair, kMax + 1> pairs_;  // the one behind the last is being read
  std::size_t count_ = 0;
  std::array<std::string_view, kMaxWords> words_;
  std::size_t words_count_ = 0;
  std::size_t loose_words_ = 0;

  friend class PairScanner;
};

}  // namespace scalewatch::logimport
