#include "deploy/demo/data.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <numbers>
#include <stdexcept>

namespace scalewatch::demo {

Random::Random(std::uint64_t seed) {
  for (auto& word : state_) {  // splitmix64 spreads the seed over the state
    seed += 0x9e3779b97f4a7c15;
    std::uint64_t z = seed;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    word = z ^ (z >> 31);
  }
}

std::uint64_t Random::next() {
  const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const std::uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

double Random::normal() {
  const double radius = std::sqrt(-2 * std::log(1 - uniform()));
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

Corpus::Corpus(std::string_view text) {
  if (text.size() < 1000) throw std::invalid_argument("the text to learn has under 1,000 bytes");
  std::array<bool, 256> seen{};
  for (const char c : text) seen[static_cast<unsigned char>(c)] = true;
  std::array<std::uint32_t, 256> id{};
  for (std::size_t byte = 0; byte < seen.size(); ++byte) {
    if (seen[byte]) id[byte] = static_cast<std::uint32_t>(vocabulary_++);
  }
  ids_.reserve(text.size());
  for (const char c : text) ids_.push_back(id[static_cast<unsigned char>(c)]);
}

Corpus Corpus::load(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw std::runtime_error("cannot read " + path + " (Debian's package base-files has it); give another text with --text");
  return Corpus(std::string(std::istreambuf_iterator<char>(file), {}));
}

Batch Corpus::sample(Random& random, std::size_t size, std::size_t context, std::uint32_t rank, std::uint32_t ranks) const {
  const std::size_t part = ids_.size() / ranks;
  const std::size_t begin = part * rank;
  Batch batch;
  batch.inputs.reserve(size * context);
  for (std::size_t i = 0; i < size; ++i) {
    const std::size_t at = begin + random.below(part - context);
    batch.inputs.insert(batch.inputs.end(), ids_.begin() + static_cast<std::ptrdiff_t>(at),
                        ids_.begin() + static_cast<std::ptrdiff_t>(at + context));
    batch.targets.push_back(ids_[at + context]);
  }
  batch.weights.assign(size, 1.0F);
  return batch;
}

void corrupt(Batch& batch, std::size_t first, std::size_t count) {
  const std::size_t end = std::min(first + count, batch.weights.size());
  for (std::size_t i = first; i < end; ++i) std::memset(&batch.weights[i], 0xff, sizeof(float));
}

}  // namespace scalewatch::demo
