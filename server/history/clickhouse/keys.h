// What names a row in ClickHouse: numbers made of the names that Scalewatch uses. Pure.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "server/engine/ports/history_store.h"

namespace scalewatch::clickhouse {

// FNV-1a, 64 bits.
inline std::uint64_t hash_of(std::string_view text, std::uint64_t hash = 0xcbf29ce484222325) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

// The 16 hexadecimal digits of a run_uid as a number; of any other text its hash.
inline std::uint64_t run_key(std::string_view run_uid) {
  std::uint64_t key = 0;
  for (const char c : run_uid) {
    const bool digit = c >= '0' && c <= '9';
    if (run_uid.size() != 16 || (!digit && (c < 'a' || c > 'f'))) return hash_of(run_uid);
    key = key << 4 | static_cast<std::uint64_t>(digit ? c - '0' : c - 'a' + 10);
  }
  return key;
}

// Of a run's name: what servers claim.
inline std::uint64_t name_key(std::string_view name) {
  return hash_of(name);
}

// First 8 of 16 random bytes: enough within a rank of a run.
inline std::uint64_t stream_key(const engine::Incarnation& incarnation) {
  std::uint64_t key = 0;
  std::memcpy(&key, incarnation.data(), sizeof key);
  return key;
}

// Of a tensor's name within its role.
inline std::uint64_t tensor_key(std::string_view name, int role) {
  const char first = static_cast<char>(role);
  return hash_of(name, hash_of({&first, 1}));
}

// Date of Unix milliseconds, UTC, as ClickHouse's Date holds it.
inline std::uint16_t day_of(std::int64_t time_ms) {
  return static_cast<std::uint16_t>(time_ms / 86'400'000);
}

// What decides between rows of the same key: later owners win, then later moments.
inline constexpr unsigned kTimeBits = 43;  // to the year 2248
inline std::uint64_t row_version(std::uint64_t term, std::int64_t now_ms) {
  return term << kTimeBits | (static_cast<std::uint64_t>(now_ms) & ((std::uint64_t{1} << kTimeBits) - 1));
}
inline std::uint64_t term_of(std::uint64_t version) {
  return version >> kTimeBits;
}

}  // namespace scalewatch::clickhouse
