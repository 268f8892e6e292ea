// How a large tensor is cut into parts. Internal to cuda/cpu.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cuda/cpu/kernel.h"

namespace scalewatch::cpu {

// Each part is summed for itself and the parts' sums are added in order, so the cut must depend on the size alone: then a
// result is the same bits however many threads there are.
inline constexpr std::size_t kMaxParts = 128;
inline constexpr std::uint64_t kSmallestPart = std::uint64_t{1} << 17;  // elements
static_assert(kSmallestPart % kBlock == 0);

// Bytes from which a tensor is worth waking threads: one thread needs some 200 µs for it, waking costs the caller about 10.
inline constexpr std::uint64_t kWorthThreads = std::uint64_t{4} << 20;

class Parts {
 public:
  // At least one element.
  explicit Parts(std::uint64_t numel) noexcept : numel_(numel) {
    while ((numel - 1) / size_ >= kMaxParts) size_ *= 2;
  }

  [[nodiscard]] std::size_t count() const noexcept { return static_cast<std::size_t>((numel_ - 1) / size_ + 1); }
  [[nodiscard]] std::uint64_t first(std::size_t part) const noexcept { return part * size_; }
  [[nodiscard]] std::uint64_t size(std::size_t part) const noexcept { return std::min(size_, numel_ - first(part)); }

 private:
  std::uint64_t numel_;
  std::uint64_t size_ = kSmallestPart;
};

}  // namespace scalewatch::cpu
