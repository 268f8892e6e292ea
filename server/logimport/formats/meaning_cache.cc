#include "server/logimport/formats/meaning_cache.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

namespace scalewatch::logimport {
namespace {

constexpr std::size_t kSets = 256;
constexpr std::size_t kMaxBytes = 40;

struct Entry {
  std::array<char, kMaxBytes> key{};
  std::uint8_t length = 0;  // 0: empty
  bool exact = false;
  KeyMeaning meaning;
};
using Set = std::array<Entry, 2>;  // the newest first

template <class Word>
Word load(const char* bytes) {
  Word word{};
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

// All bytes of a key of less than eight.
std::uint64_t few_of(const char* key, std::size_t size) {
  if (size >= 4) return load<std::uint32_t>(key) | std::uint64_t{load<std::uint32_t>(key + size - 4)} << 32;
  const auto byte = [&](std::size_t at) { return std::uint64_t{static_cast<unsigned char>(key[at])}; };
  return byte(0) | byte(size / 2) << 8 | byte(size - 1) << 16;
}

// Eight of its bytes, from `at` on. The last eight may hold some of the eight before them again.
std::uint64_t eight_of(const char* key, std::size_t size, std::size_t at) {
  return load<std::uint64_t>(key + std::min(at, size - 8));
}

// FNV-1a over eight bytes a turn is enough for a table that only remembers.
std::size_t set_of(std::string_view key, bool exact) {
  std::uint64_t hash = key.size() * 2 + (exact ? 1 : 0);
  const auto mix = [&](std::uint64_t bytes) {
    hash = (hash ^ bytes) * 0x100000001b3;
    hash ^= hash >> 29;
  };
  if (key.size() < 8) {
    mix(few_of(key.data(), key.size()));
  } else {
    for (std::size_t at = 0; at < key.size(); at += 8) mix(eight_of(key.data(), key.size(), at));
  }
  return hash % kSets;
}

bool holds(const Entry& entry, std::string_view key, bool exact) {
  const std::size_t size = key.size();
  if (entry.length != size || entry.exact != exact) return false;
  if (size < 8) return few_of(entry.key.data(), size) == few_of(key.data(), size);
  for (std::size_t at = 0; at < size; at += 8) {
    if (eight_of(entry.key.data(), size, at) != eight_of(key.data(), size, at)) return false;
  }
  return true;
}

}  // namespace

const KeyMeaning& remembered_meaning(std::string_view key, bool exact) {
  thread_local std::array<Set, kSets> sets;
  thread_local KeyMeaning judged;
  if (key.empty() || key.size() > kMaxBytes) return judged = meaning_of(key, exact);
  Set& set = sets[set_of(key, exact)];
  for (const Entry& entry : set) {
    if (holds(entry, key, exact)) return entry.meaning;
  }
  set[1] = set[0];
  Entry& entry = set[0];
  entry.meaning = meaning_of(key, exact);
  entry.exact = exact;
  entry.length = static_cast<std::uint8_t>(key.size());
  std::memcpy(entry.key.data(), key.data(), key.size());
  return entry.meaning;
}

}  // namespace scalewatch::logimport
