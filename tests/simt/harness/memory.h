// Device memory of the harness: every allocation has its own pages between two that can't be accessed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace simt {

// Which end of an allocation touches a guard page: accesses one byte beyond it fault even through plain pointers. What is left
// between the other end and its guard page holds a pattern that must not change.
enum class Flush { kEnd, kStart };

// Memory of `bytes` bytes (0 is legal) whose address is `offset` modulo `alignment`. It is filled with poison.
// `alignment` is a power of two, at most 4096. Aborts when the system has no memory.
[[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment = 256, std::size_t offset = 0, Flush flush = Flush::kEnd,
                             std::uint32_t poison = 0x7FA5A5A5U);

// Memory of a size that need not exist: pages come into being when written, and are zero until then. Page-aligned.
[[nodiscard]] void* allocate_sparse(std::size_t bytes);

// Gives it back. Returns what is wrong with it: an unknown pointer, a write beside the allocation; empty: nothing.
std::string release(void* data);

// From now on kernels may only read it; or write it again.
void protect(void* data, bool read_only);

// Bytes of the allocation that starts at data; SIZE_MAX when none does.
[[nodiscard]] std::size_t size_of_allocation(const void* data);

// What all launches together did not know of: the number of live allocations.
[[nodiscard]] std::size_t live_allocations();

// Owns one allocation. Not thread-safe.
class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t bytes, std::size_t alignment = 256, std::size_t offset = 0, Flush flush = Flush::kEnd,
                        std::uint32_t poison = 0x7FA5A5A5U)
      : data_(static_cast<std::byte*>(allocate(bytes, alignment, offset, flush, poison))), size_(bytes) {}
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  DeviceMemory(DeviceMemory&& other) noexcept : data_(other.data_), size_(other.size_) { other.data_ = nullptr; }
  DeviceMemory& operator=(DeviceMemory&&) = delete;
  ~DeviceMemory() {
    if (data_ != nullptr) release(data_);
  }

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  template <class T>
  [[nodiscard]] T* as() const {
    return reinterpret_cast<T*>(data_);
  }
  // Copies it in from the host and forbids kernels to write it.
  void fill(const void* from);

 private:
  std::byte* data_;
  std::size_t size_;
};

}  // namespace simt
