#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "cuda/cpu/gather.h"
#include "cuda/cpu/measure.h"
#include "cuda/record/format.h"

namespace scalewatch {
namespace {

// Bits only, so no floating-point mode matters. Elements fall into slots that follow from their bits without a branch, and
// slots into octaves at the end.
template <class Word, int kMantissaBits>
struct Slots {
  static constexpr int kExponentBits = 8 * static_cast<int>(sizeof(Word)) - 1 - kMantissaBits;
  // Zero, each width of a subnormal, each exponent field of a normal number; infinity and NaN come last.
  static constexpr std::size_t kCount = kMantissaBits + (std::size_t{1} << kExponentBits);

  static std::size_t of(Word word) noexcept {
    const auto magnitude = static_cast<Word>(word & static_cast<Word>(static_cast<Word>(~Word{0}) >> 1));
    const auto field = static_cast<std::size_t>(magnitude >> kMantissaBits);
    return field == 0 ? static_cast<std::size_t>(std::bit_width(magnitude)) : field + kMantissaBits;
  }

  static void add(std::size_t slot, std::uint64_t count, const FormatLayout& layout, ExponentCounts& counts) noexcept {
    if (slot == 0 || slot == kCount - 1) return;
    counts.counts[ExponentCounts::bin(static_cast<int>(slot) - kMantissaBits - layout.bias)] += count;
  }
};

// A byte's slot is its pattern.
struct Patterns {
  static constexpr std::size_t kCount = 256;

  static std::size_t of(std::uint8_t word) noexcept { return word; }

  static void add(std::size_t slot, std::uint64_t count, const FormatLayout& layout, ExponentCounts& counts) noexcept {
    const std::uint64_t magnitude = slot & 0x7FU;
    if (magnitude == 0 || magnitude >= layout.first_non_finite) return;
    const auto field = static_cast<int>(magnitude >> layout.mantissa_bits);
    const int width = field != 0 ? field : static_cast<int>(std::bit_width(magnitude)) - layout.mantissa_bits;
    counts.counts[ExponentCounts::bin(width - layout.bias)] += count;
  }
};

template <class Word, class Slot>
void count(const void* data, std::uint64_t numel, const FormatLayout& layout, ExponentCounts& counts) noexcept {
  // Several tables: neighbours tend to share a slot, and an increment waits for the one before it in the same place.
  constexpr std::size_t kTables = sizeof(Word) == 8 ? 2 : 4;
  constexpr std::uint64_t kRound = std::uint64_t{1} << 30;  // what a table's counters can hold
  const auto* from = static_cast<const char*>(data);
  const auto slot_at = [&](std::uint64_t i) {
    Word word;
    std::memcpy(&word, from + i * sizeof word, sizeof word);
    return Slot::of(word);
  };
  for (std::uint64_t at = 0; at < numel;) {
    std::array<std::array<std::uint32_t, Slot::kCount>, kTables> tables{};
    const std::uint64_t end = at + std::min(kRound, numel - at);
    for (; at + kTables <= end; at += kTables) {
      for (std::size_t t = 0; t < kTables; ++t) ++tables[t][slot_at(at + t)];
    }
    for (; at < end; ++at) ++tables[0][slot_at(at)];
    for (const auto& table : tables) {
      for (std::size_t slot = 0; slot < Slot::kCount; ++slot) Slot::add(slot, table[slot], layout, counts);
    }
  }
}

}  // namespace

void measure_exponents(const void* data, DType dtype, std::uint64_t numel, ExponentCounts& counts) noexcept {
  if (data == nullptr) return;
  const FormatLayout layout = format_layout(dtype);
  switch (dtype) {
    case DType::kFp64:
      return count<std::uint64_t, Slots<std::uint64_t, 52>>(data, numel, layout, counts);
    case DType::kFp32:
      return count<std::uint32_t, Slots<std::uint32_t, 23>>(data, numel, layout, counts);
    case DType::kFp16:
      return count<std::uint16_t, Slots<std::uint16_t, 10>>(data, numel, layout, counts);
    case DType::kBf16:
      return count<std::uint16_t, Slots<std::uint16_t, 7>>(data, numel, layout, counts);
    case DType::kE4m3fn:
    case DType::kE5m2:
      return count<std::uint8_t, Patterns>(data, numel, layout, counts);
    case DType::kUnspecified:
      return;
  }
}

void measure_exponents(const StridedTensor& tensor, ExponentCounts& counts) noexcept {
  cpu::Walk walk;
  if (cpu::make_walk(tensor, walk)) cpu::add_walk_exponents(walk, tensor.dtype, counts);
}

}  // namespace scalewatch
