#include "tests/simt/harness/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "tests/simt/harness/regions.h"

namespace simt {
namespace {

constexpr std::size_t kPage = 4096;

std::size_t round_up(std::size_t value, std::size_t to) {
  return (value + to - 1) / to * to;
}

void fill_words(std::byte* from, std::byte* to, std::uint32_t word) {
  for (std::size_t i = 0; from + i < to; ++i) from[i] = static_cast<std::byte>(word >> (8 * (i % 4)));
}

constexpr std::uint32_t kCanary = 0xDEAD'FA11U;

bool canary_intact(const std::byte* from, const std::byte* to) {
  for (std::size_t i = 0; from + i < to; ++i) {
    if (from[i] != static_cast<std::byte>(kCanary >> (8 * (i % 4)))) return false;
  }
  return true;
}

}  // namespace

std::map<std::uintptr_t, Region>& regions() {
  static auto* const all = new std::map<std::uintptr_t, Region>;  // outlives every owner of memory
  return *all;
}

std::mutex& regions_mutex() {
  static auto* const only = new std::mutex;
  return *only;
}

const char* note_access(Region& region, std::size_t offset, std::size_t bytes, Access access, std::uint64_t launch,
                        std::uint32_t block) {
  const bool writes = access == Access::kStore || access == Access::kAtomic;
  if (writes && region.read_only) return "write to memory that is only for reading";
  if (region.writers_launch != launch) {
    if (!writes) return nullptr;
    region.writers.assign((region.bytes + 3) / 4, 0);
    region.writers_launch = launch;
  }
  for (std::size_t word = offset / 4; word <= (offset + bytes - 1) / 4; ++word) {
    std::uint32_t& writer = region.writers[word];
    if (access == Access::kStore) writer = block + 1;
    if (access == Access::kAtomic) writer = kAnyBlock;
    if (access == Access::kLoadConstant && writer != 0) return "constant load of what this launch has written";
    if (access == Access::kLoad && writer != 0 && writer != block + 1) {
      return "plain load of what another block has written in this launch: it may be stale";
    }
  }
  return nullptr;
}

namespace {

// Pages for `body` bytes between two guard pages. Returns where the body starts.
std::byte* map_pages(std::size_t body) {
  void* mapped = mmap(nullptr, body + 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED || mprotect(static_cast<std::byte*>(mapped) + kPage, body, PROT_READ | PROT_WRITE) != 0) {
    std::perror("simt::allocate");
    std::abort();
  }
  return static_cast<std::byte*>(mapped) + kPage;
}

void remember(std::byte* data, std::size_t bytes, std::byte* first, std::size_t body) {
  const std::lock_guard lock(regions_mutex());
  // An allocation of no bytes has a key too.
  regions()[reinterpret_cast<std::uintptr_t>(data)] = Region{bytes, first - kPage, body + 2 * kPage, false, 0, {}};
}

}  // namespace

void* allocate(std::size_t bytes, std::size_t alignment, std::size_t offset, Flush flush, std::uint32_t poison) {
  // Room for the bytes wherever the alignment pushes them.
  const std::size_t body = round_up(std::max<std::size_t>(bytes, 1) + alignment + offset, kPage);
  std::byte* const first = map_pages(body);
  std::byte* const last = first + body;
  std::byte* data = first + offset % alignment;
  if (flush == Flush::kEnd) {
    const auto at = reinterpret_cast<std::uintptr_t>(last - bytes);
    data = last - bytes - (at - offset) % alignment;
  }
  fill_words(first, data, kCanary);
  fill_words(data, data + bytes, poison);
  fill_words(data + bytes, last, kCanary);
  remember(data, bytes, first, body);
  return data;
}

void* allocate_sparse(std::size_t bytes) {
  const std::size_t body = round_up(std::max<std::size_t>(bytes, 1), kPage);
  std::byte* const first = map_pages(body);
  fill_words(first + bytes, first + body, kCanary);
  remember(first, bytes, first, body);
  return first;
}

std::string release(void* data) {
  const std::lock_guard lock(regions_mutex());
  const auto found = regions().find(reinterpret_cast<std::uintptr_t>(data));
  if (found == regions().end()) return "no allocation of device memory starts here";
  const Region region = found->second;
  regions().erase(found);
  auto* const start = static_cast<std::byte*>(data);
  std::string wrong;
  if (!canary_intact(region.mapped + kPage, start)) wrong = "bytes before the allocation were written";
  if (!canary_intact(start + region.bytes, region.mapped + region.mapped_bytes - kPage)) {
    wrong = "bytes after the allocation were written";
  }
  munmap(region.mapped, region.mapped_bytes);
  return wrong;
}

void protect(void* data, bool read_only) {
  const std::lock_guard lock(regions_mutex());
  const auto found = regions().find(reinterpret_cast<std::uintptr_t>(data));
  if (found == regions().end()) return;
  found->second.read_only = read_only;
  mprotect(found->second.mapped + kPage, found->second.mapped_bytes - 2 * kPage,
           read_only ? PROT_READ : PROT_READ | PROT_WRITE);
}

std::size_t size_of_allocation(const void* data) {
  const std::lock_guard lock(regions_mutex());
  const auto found = regions().find(reinterpret_cast<std::uintptr_t>(data));
  return found == regions().end() ? SIZE_MAX : found->second.bytes;
}

std::size_t live_allocations() {
  const std::lock_guard lock(regions_mutex());
  return regions().size();
}

void DeviceMemory::fill(const void* from) {
  protect(data_, false);
  if (size_ != 0) std::memcpy(data_, from, size_);
  protect(data_, true);
}

}  // namespace simt
