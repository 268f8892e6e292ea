#include "server/logimport/formats/meaning_cache.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

namespace scalewatch::logimport {
namespace {

constexpr std::size_t kEntries = 512;
constexpr std::size_t kMaxBytes = 40;

struct Entry {
  std::array<char, kMaxBytes> key{};
  std::uint8_t length = 0;  // 0: empty
  bool exact = false;
  KeyMeaning meaning;
};

// FNV-1a over eight bytes a turn is enough for a table that only remembers.
std::size_t slot_of(std::string_view key, bool exact) {
  std::uint64_t hash = key.size() * 2 + (exact ? 1 : 0);
  const auto mix = [&](std::uint64_t bytes) {
    hash = (hash ^ bytes) * 0x100000001b3;
    hash ^= hash >> 29;
  };
  if (key.size() < 8) {
    std::uint64_t few = 0;
    for (const char c : key) few = few << 8 | static_cast<unsigned char>(c);
    mix(few);
    return hash % kEntries;
  }
  // The last eight may hold some of the eight before them again.
  for (std::size_t at = 0; at < key.size(); at += 8) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, key.data() + std::min(at, key.size() - 8), sizeof(eight));
    mix(eight);
  }
  return hash % kEntries;
}

}  // namespace

KeyMeaning remembered_meaning(std::string_view key, bool exact) {
  if (key.empty() || key.size() > kMaxBytes) return meaning_of(key, exact);
  thread_local std::array<Entry, kEntries> entries;
  Entry& entry = entries[slot_of(key, exact)];
  if (entry.length == key.size() && entry.exact == exact && std::memcmp(entry.key.data(), key.data(), key.size()) == 0) {
    return entry.meaning;
  }
  entry.meaning = meaning_of(key, exact);
  entry.exact = exact;
  entry.length = static_cast<std::uint8_t>(key.size());
  std::memcpy(entry.key.data(), key.data(), key.size());
  return entry.meaning;
}

}  // namespace scalewatch::logimport
