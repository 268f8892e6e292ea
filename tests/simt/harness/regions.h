// The allocations of device memory, by address. Internal to the harness.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "tests/simt/harness/runtime.h"

namespace simt {

struct Region {
  std::size_t bytes;
  std::byte* mapped;  // with its guard pages
  std::size_t mapped_bytes;
  bool read_only;
  // Which block of which launch stored each word of 4 bytes; empty: none ever.
  std::uint64_t writers_launch = 0;
  std::vector<std::uint32_t> writers;  // 0: nobody; kAnyBlock: an atomic; otherwise 1 + number of the block
};
inline constexpr std::uint32_t kAnyBlock = 0xFFFFFFFFU;

// What is wrong with an access to bytes at `offset` of a region; null: nothing. Remembers stores.
const char* note_access(Region& region, std::size_t offset, std::size_t bytes, Access access, std::uint64_t launch,
                        std::uint32_t block);

// The map, under its mutex. A launch holds it from begin to end.
std::map<std::uintptr_t, Region>& regions();
std::mutex& regions_mutex();

}  // namespace simt
