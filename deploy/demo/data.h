// The demo's data: the text of the GNU General Public License, which every Debian machine has, cut into next-character samples.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace scalewatch::demo {

// xoshiro256**, so that a seed means the same with every standard library. Not thread-safe.
class Random {
 public:
  explicit Random(std::uint64_t seed);
  std::uint64_t next();
  std::size_t below(std::size_t limit) { return static_cast<std::size_t>(next() % limit); }  // 0 to limit - 1
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }                   // [0, 1)
  double normal();                                                                           // mean 0, variance 1

 private:
  std::array<std::uint64_t, 4> state_{};
};

// Samples of one step: `context` character ids each, the id that follows, and how much the sample counts.
struct Batch {
  std::vector<std::uint32_t> inputs;   // size × context
  std::vector<std::uint32_t> targets;  // size
  std::vector<float> weights;          // size
};

class Corpus {
 public:
  static constexpr const char* kPath = "/usr/share/common-licenses/GPL-3";

  explicit Corpus(std::string_view text);       // throws std::invalid_argument on a text of under 1,000 bytes
  static Corpus load(const std::string& path);  // throws std::runtime_error that names the file

  [[nodiscard]] std::size_t vocabulary() const { return vocabulary_; }
  [[nodiscard]] std::size_t size() const { return ids_.size(); }
  // `size` samples from the part of the text that belongs to this rank (one of `ranks` equal, consecutive parts).
  [[nodiscard]] Batch sample(Random& random, std::size_t size, std::size_t context, std::uint32_t rank,
                             std::uint32_t ranks) const;

 private:
  std::vector<std::uint32_t> ids_;  // the text, one id a byte
  std::size_t vocabulary_ = 0;
};

// Sample weights as a loader reads them from a corrupted record: four bytes of 0xff each, which fp32 reads as NaN.
void corrupt(Batch& batch, std::size_t first, std::size_t count);

}  // namespace scalewatch::demo
