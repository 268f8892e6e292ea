// Finds any of many words in a text, in any case of letters, in one pass: what decides which formats look at a line. At every
// other byte three bytes are hashed and looked up in a bitmap, which every word has with its first three bytes or the three
// behind its first one; only where it says so are words compared. Costs well under a nanosecond a byte, however many words
// there are.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

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

  // Appends every place of every word, in order of position. Thread-safe.
  void find(std::string_view text, std::vector<Hit>& hits) const;

 private:
  static constexpr unsigned kBits = 16;  // of a hash
  static constexpr std::size_t kChains = 4096;

  class Bitmap {
   public:
    void set(std::uint32_t hash) { bits_[hash / 64] |= std::uint64_t{1} << (hash % 64); }
    bool has(std::uint32_t hash) const { return (bits_[hash / 64] >> (hash % 64) & 1) != 0; }

   private:
    std::array<std::uint64_t, (std::size_t{1} << kBits) / 64> bits_{};
  };

  void compare(std::string_view text, std::size_t at, std::vector<Hit>& hits) const;

  // The words of one chain stand side by side. All lower case.
  struct Word {
    std::uint32_t head = 0;  // its first four bytes
    std::uint32_t word = 0;  // its index
    std::uint64_t next = 0;  // the eight bytes behind them ...
    std::uint64_t mask = 0;  // ... as far as it has them
    std::uint32_t at = 0;    // its bytes in bytes_
    std::uint32_t length = 0;
  };
  struct Chain {
    std::uint32_t begin = 0, end = 0;
  };
  Bitmap threes_;                        // of all words: bytes 0 to 2, and 1 to 3
  Bitmap heads_;                         // of all words: bytes 0 to 3
  std::array<Chain, kChains> chains_{};  // by the hash of the head
  std::vector<Word> words_;
  std::string bytes_;
};

}  // namespace scalewatch::logimport
