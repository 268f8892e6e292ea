// The yardstick: reads memory as fast as vector instructions can.
#pragma once

#include <cstddef>
#include <cstdint>

namespace scalewatch::bench {

// Sum of the 32-bit words of a 64-byte aligned array whose size is a multiple of 1,024 bytes. Only the read matters.
std::uint32_t read_all(const void* data, std::size_t bytes) noexcept;

}  // namespace scalewatch::bench
