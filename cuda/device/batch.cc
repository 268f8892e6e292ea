#include "cuda/device/batch.h"

#include <algorithm>
#include <cstring>

namespace scalewatch::cuda {
namespace {

device::ResultHeader header_at(const unsigned char* block) noexcept {
  device::ResultHeader header;
  std::memcpy(&header, block, sizeof header);
  return header;
}

}  // namespace

Batch::Ready Batch::poll() const noexcept {
  device->enter_poll();
  const Status status = device->poll(device->driver().query_event, done);
  if (status == kErrorNotReady) return Ready::kNotYet;
  if (status == kSuccess) return Ready::kYes;
  device->check(status);
  return Ready::kFailed;
}

std::uint32_t Batch::take_blocks() noexcept {
  lost_blocks_ = 0;
  if (collected == nullptr) return 1;
  // Sequences of a graph rise by one a replay from a number of its own, so what lay in the memory before is told apart.
  const std::uint64_t next = *collected;
  std::uint64_t newest = next;
  for (std::uint32_t i = 0; i < slots; ++i) {
    const device::ResultHeader header = header_at(host + i * block_bytes);
    const bool own = header.version == device::kAbiVersion && header.sequence >= next &&
                     header.sequence >> 32U == next >> 32U && header.sequence % slots == i;
    if (own) newest = std::max<std::uint64_t>(newest, header.sequence + 1);
  }
  first_sequence_ = newest - std::min<std::uint64_t>(newest - next, slots);
  lost_blocks_ = first_sequence_ - next;
  *collected = newest;
  return static_cast<std::uint32_t>(newest - first_sequence_);
}

const unsigned char* Batch::at(std::uint32_t taken) const noexcept {
  return collected == nullptr ? host : host + (first_sequence_ + taken) % slots * block_bytes;
}

Record Batch::record(std::uint32_t block_index, std::size_t index) const noexcept {
  device::DeviceRecord from;
  std::memcpy(&from, at(block_index) + device::records_offset(device::kMaxScalars) + index * sizeof from, sizeof from);
  Record made;
  made.numel = from.numel;
  made.nan = from.nan;
  made.pos_inf = from.pos_inf;
  made.neg_inf = from.neg_inf;
  made.zero = from.zero;
  made.subnormal = from.subnormal;
  made.flushed = from.flushed;
  made.over = from.over;
  made.sum = from.sum;
  made.sum_sq = from.sum_sq;
  made.min = from.min;
  made.max = from.max;
  made.absmin_nonzero = from.absmin_nonzero;
  return made;
}

double Batch::scalar(std::uint32_t block_index, std::size_t index) const noexcept {
  double value = 0;
  std::memcpy(&value, at(block_index) + device::kScalarsOffset + index * sizeof value, sizeof value);
  return value;
}

void Batch::add_exponents(std::size_t index, ExponentCounts& to) const noexcept {
  ExponentCounts from;
  std::memcpy(from.counts.data(), host + block_bytes + index * sizeof from.counts, sizeof from.counts);
  merge(to, from);
}

std::uint64_t Batch::gpu_ns() const noexcept {
  float ms = 0;
  if (!timed || device->poll(device->driver().elapsed_ms, &ms, begin, end) != kSuccess || !(ms > 0)) return 0;
  return static_cast<std::uint64_t>(static_cast<double>(ms) * 1e6);
}

}  // namespace scalewatch::cuda
