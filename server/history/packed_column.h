// A column of up to 128 numbers, packed to as few bits as they need (see FORMAT.md, "Packed column").
//
// Numbers of one tensor over attempts lie close together: what is common to all (sign, trailing zero bits, the smallest value)
// is stored once, the rest in as many bits as the widest needs; a few that would widen all are kept apart. Any single value is
// read without reading the others. Lossless, NaN payloads aside.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace scalewatch::history {

inline constexpr std::size_t kMaxColumn = 128;

enum class NumberKind : std::uint8_t { kInteger, kFloat, kDouble };

// Appends the column. `bits`: integers, or the bits of floats and doubles; 1 to 128 of them.
void pack_column(std::span<const std::uint64_t> bits, NumberKind kind, std::string& out);

// A packed column within bytes that must outlive it. Not thread-safe while it is being read from bytes; else const is enough.
class PackedColumn {
 public:
  PackedColumn() = default;
  // Reads the column of `count` values at the front of `bytes` and moves them behind it. False for bytes that are none.
  bool open(std::string_view& bytes, std::size_t count, NumberKind kind);
  // Bits as they were given to pack_column.
  [[nodiscard]] std::uint64_t at(std::size_t index) const;
  // All of them, the first to the `out.size()`th of at most `count`: several times faster than one by one.
  void unpack(std::span<std::uint64_t> out) const;

 private:
  [[nodiscard]] std::uint64_t restore(std::uint64_t value) const;
  // As stored, exceptions aside.
  [[nodiscard]] std::uint64_t packed_at(std::size_t index) const;

  const char* packed_ = nullptr;
  const char* packed_end_ = nullptr;
  std::string_view exceptions_;
  std::uint64_t base_ = 0;
  NumberKind kind_ = NumberKind::kInteger;
  std::uint8_t flags_ = 0;
  std::uint8_t width_ = 0;
  std::uint8_t shift_ = 0;
};

}  // namespace scalewatch::history
