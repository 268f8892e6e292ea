// The compiled kernels, embedded in the binary.
#pragma once

#include <cstddef>
#include <span>

namespace scalewatch::device {

// Machine code of cuda/device/kernels for GPUs of compute capability major.minor, and for later ones of the same major.
struct Cubin {
  int major;
  int minor;
  const unsigned char* data;  // an ELF file; lives as long as the program
  std::size_t size;           // bytes
};

// All of them, by rising capability. Empty in a build with SCALEWATCH_CUDA=OFF. Thread-safe.
[[nodiscard]] std::span<const Cubin> cubins() noexcept;

}  // namespace scalewatch::device
