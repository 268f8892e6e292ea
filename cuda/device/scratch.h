// Device memory that kernels on one stream use one after the other: partial results and the ticket of the block that ends last.
#pragma once

#include <cstdint>
#include <vector>

#include "cuda/device/abi.h"
#include "cuda/device/device.h"

namespace scalewatch::cuda {

struct Scratch {
  Stream stream = nullptr;
  bool used = false;
  DevicePointer partials = 0;
  DevicePointer ticket = 0;
  std::uint64_t chunks = 0;
};

// All device memory of a monitor on one GPU: taken when needed first, or when more is needed, and freed at the end only,
// because freeing waits for the GPU. Trainer's thread; its context is current.
class Memory {
 public:
  explicit Memory(Device& device) noexcept : device_(device) {}
  ~Memory();  // the context need not be current
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // 0 or null when there is none: the device is quiet then, unless it can do without.
  [[nodiscard]] DevicePointer device_bytes(std::uint64_t bytes, bool can_do_without = false) noexcept;
  [[nodiscard]] unsigned char* host_bytes(std::uint64_t bytes, bool can_do_without = false) noexcept;
  [[nodiscard]] Event event(bool timed) noexcept;
  // Frees nothing at the end.
  void leave() noexcept { left_ = true; }

 private:
  // As Device::call; to be out of memory is no error of one that can do without.
  template <class Allocate>
  bool allocate(bool can_do_without, const Allocate& allocate) noexcept;

  Device& device_;
  std::vector<DevicePointer> device_blocks_;
  std::vector<void*> host_blocks_;
  std::vector<Event> events_;
  bool left_ = false;
};

// One scratch a stream, of so many streams at most.
class Scratches {
 public:
  static constexpr std::size_t kMost = 16;

  Scratches(Device& device, Memory& memory) noexcept : device_(device), memory_(memory) {}
  // Room for so many chunks on this stream; null when it can't be had. expected: of the launches to come.
  [[nodiscard]] Scratch* of(Stream stream, std::uint64_t chunks, std::uint64_t expected) noexcept;
  // Makes one of its own for a graph, whose launches may run on any stream.
  [[nodiscard]] bool make(Scratch& scratch, Stream stream, std::uint64_t chunks) noexcept;

 private:
  Device& device_;
  Memory& memory_;
  Scratch scratches_[kMost];
};

}  // namespace scalewatch::cuda
