// Finds any of many words in a text, in any case of letters, in one pass: what decides which formats look at a line. At every
// byte four bytes are hashed and looked up in a bitmap; only where it says so are words compared. Costs well under a
// nanosecond a byte, however many words there are.
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
  static constexpr unsigned kBits = 16;  // of the hash
  static constexpr std::size_t kChains = 4096;

  void compare(std::string_view text, std::size_t at, std::uint32_t hash, std::vector<Hit>& hits) const;

  // The words of one chain stand side by side.
  struct Word {
    std::uint32_t head = 0;  // its first four bytes, folded
    std::uint32_t word = 0;  // its index
    std::uint32_t at = 0;    // its bytes in bytes_, lower case
    std::uint32_t length = 0;
  };
  struct Chain {
    std::uint32_t begin = 0, end = 0;
  };
  std::array<std::uint64_t, (std::size_t{1} << kBits) / 64> bitmap_{};  // hashes of first four bytes
  std::array<Chain, kChains> chains_{};                                 // by hash
  std::vector<Word> words_;
  std::string bytes_;
};

}  // namespace scalewatch::logimport
