// What the kernels of one launch read, written into a batch's pinned memory; and which part of it the device does not have yet.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "cuda/device/abi.h"
#include "cuda/device/batch.h"

namespace scalewatch::cuda {

// Room for an attempt of so many records and histograms, and all the scalars that there can be.
inline std::size_t usual_packet_bytes(std::size_t records, std::size_t exponents) noexcept {
  return device::kMaxScalars * sizeof(device::ScalarSource) +
         (records + exponents) * (sizeof(device::TensorDesc) + sizeof(std::uint64_t)) + 4096;
}

// Appends to what the batch's launches before wrote: the kernels may still read that. The caller has seen that there is room.
class Packet {
 public:
  explicit Packet(Batch& batch) noexcept : batch_(batch) {}

  // Each returns the address on the device.
  template <class T>
  DevicePointer add(std::span<const T> values) noexcept {
    const DevicePointer at = batch_.packet + batch_.packet_used;
    for (const T& value : values) put(value);
    return at;
  }
  DevicePointer add_scalars(std::span<const device::ScalarSource> scalars, std::uint32_t first_index) noexcept {
    const DevicePointer at = batch_.packet + batch_.packet_used;
    for (const device::ScalarSource& scalar : scalars) put(device::ScalarSource{scalar.address, scalar.kind, first_index++});
    return at;
  }
  // chunks: all of them.
  DevicePointer add_first_chunks(std::span<const device::TensorDesc> tensors, std::uint64_t& chunks) noexcept {
    const DevicePointer at = batch_.packet + batch_.packet_used;
    chunks = 0;
    put(chunks);
    for (const device::TensorDesc& tensor : tensors) put(chunks += device::chunk_count(tensor));
    return at;
  }

  // Begin and length of what is to be uploaded.
  [[nodiscard]] std::pair<std::size_t, std::size_t> dirty() const noexcept {
    return begin_ < end_ ? std::pair(begin_, end_ - begin_) : std::pair<std::size_t, std::size_t>(0, 0);
  }

 private:
  template <class T>
  void put(const T& value) noexcept {
    static_assert(sizeof(T) % 8 == 0);
    unsigned char* at = batch_.staging + batch_.packet_used;
    const std::size_t begin = batch_.packet_used;
    batch_.packet_used += sizeof(T);
    // The same bytes need no upload; padding that differs only costs one.
    const void* const from = &value;
    if (batch_.packet_used <= batch_.packet_known && std::memcmp(at, from, sizeof(T)) == 0) return;
    std::memcpy(at, from, sizeof(T));
    begin_ = std::min(begin_, begin);
    end_ = batch_.packet_used;
    batch_.packet_known = std::max(batch_.packet_known, batch_.packet_used);
  }

  Batch& batch_;
  std::size_t begin_ = SIZE_MAX;
  std::size_t end_ = 0;
};

}  // namespace scalewatch::cuda
