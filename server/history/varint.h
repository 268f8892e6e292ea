// Numbers in as many bytes as they need, seven bits each, lowest first: as Protobuf has them. Header-only, for they are read
// and written by the thousand, and mostly are of one byte.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace scalewatch::history {

inline void put_varint(std::uint64_t value, std::string& out) {
  constexpr std::size_t kMost = 10;
  std::array<char, kMost> bytes;
  std::size_t size = 0;
  for (; value >= 0x80; value >>= 7) bytes[size++] = static_cast<char>(value | 0x80);
  if (size == 0) return out.push_back(static_cast<char>(value));
  bytes[size++] = static_cast<char>(value);
  out.append(bytes.data(), size);
}

// Takes one off the front of `bytes`; false when they end within it.
inline bool take_varint(std::string_view& bytes, std::uint64_t& value) {
  value = 0;
  std::size_t size = 0;
  for (unsigned shift = 0; shift < 64 && size < bytes.size(); shift += 7) {
    const auto byte = static_cast<std::uint8_t>(bytes[size++]);
    value |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte >= 0x80) continue;
    bytes.remove_prefix(size);
    return true;
  }
  return false;
}

}  // namespace scalewatch::history
