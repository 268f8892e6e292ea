#include "server/history/packed_column.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "server/history/varint.h"

namespace scalewatch::history {

namespace {

__extension__ typedef unsigned __int128 Wide;  // NOLINT(modernize-use-using): the attribute needs it

constexpr std::uint8_t kNegative = 1;       // all values are negative
constexpr std::uint8_t kMixed = 2;          // the lowest bit of each value is its sign
constexpr std::uint8_t kExceptions = 4;     // some values are kept apart
constexpr unsigned kWordBits = 57;          // a value this wide lies within eight bytes wherever it begins
constexpr std::size_t kExceptionBits = 48;  // what one costs, roughly: its place and its value

int sign_bit(NumberKind kind) {
  return kind == NumberKind::kFloat ? 31 : 63;
}

// Brings floats to magnitudes without common trailing zeros; says how in `flags` and `shift`.
void transform(std::span<const std::uint64_t> bits, NumberKind kind, std::span<std::uint64_t> values, std::uint8_t& flags,
               std::uint8_t& shift) {
  if (kind == NumberKind::kInteger) {
    std::copy(bits.begin(), bits.end(), values.begin());
    return;
  }
  const std::uint64_t sign = std::uint64_t{1} << sign_bit(kind);
  std::uint64_t any = 0;
  std::uint64_t negative = 0;
  std::uint64_t positive = 0;
  for (const std::uint64_t value : bits) {
    any |= value & (sign - 1);
    negative |= value & sign;
    positive |= ~value & sign;
  }
  shift = any == 0 ? 0 : static_cast<std::uint8_t>(std::countr_zero(any));
  const bool mixed = negative != 0 && positive != 0;
  if (mixed) {
    flags |= kMixed;
  } else if (negative != 0) {
    flags |= kNegative;
  }
  for (std::size_t i = 0; i < bits.size(); ++i) {
    const std::uint64_t magnitude = (bits[i] & (sign - 1)) >> shift;
    values[i] = mixed ? magnitude << 1 | (bits[i] & sign ? 1U : 0U) : magnitude;
  }
}

struct Fit {
  std::uint64_t base = 0;
  unsigned width = 0;
  std::size_t bits = SIZE_MAX;
};

// The width that costs least for values counted from `base`; those below it, and those too wide, are exceptions.
Fit fit(std::span<const std::uint64_t> values, std::uint64_t base) {
  std::array<std::uint16_t, 65> by_width{};
  std::size_t below = 0;
  for (const std::uint64_t value : values) {
    if (value < base) {
      ++below;
    } else {
      ++by_width[static_cast<std::size_t>(std::bit_width(value - base))];
    }
  }
  Fit best;
  std::size_t wider = values.size() - below;
  for (unsigned width = 0; width <= 64; ++width) {
    wider -= by_width[width];
    const std::size_t bits = values.size() * width + (below + wider) * kExceptionBits;
    if (bits < best.bits) best = {base, width, bits};
    if (wider == 0) break;
  }
  return best;
}

Fit best_fit(std::span<const std::uint64_t> values) {
  const std::uint64_t low = *std::min_element(values.begin(), values.end());
  Fit best = fit(values, low);
  if (best.width == 0) return best;
  // A few zeros (a sum of nothing, an empty tensor) would widen all the others.
  std::uint64_t next = UINT64_MAX;
  for (const std::uint64_t value : values) {
    if (value >> 1 != low >> 1) next = std::min(next, value);
  }
  if (low <= 1 && next != UINT64_MAX) {
    const Fit second = fit(values, next);
    if (second.bits < best.bits) best = second;
  }
  return best;
}

// Lowest bit first.
void append_packed(std::span<const std::uint64_t> values, unsigned width, std::string& out) {
  constexpr unsigned kNarrow = 56;  // with up to seven bits that wait it fits a word
  const std::size_t begin = out.size();
  const std::size_t size = (values.size() * width + 7) / 8;
  out.resize(begin + size + sizeof(Wide));
  char* place = &out[begin];
  if (width <= kNarrow) {
    std::uint64_t pending = 0;
    unsigned bits = 0;
    for (const std::uint64_t value : values) {
      pending |= value << bits;
      bits += width;
      std::memcpy(place, &pending, sizeof pending);
      place += bits / 8;
      pending >>= bits & ~7U;
      bits &= 7U;
    }
    std::memcpy(place, &pending, sizeof pending);
  } else {
    Wide pending = 0;
    unsigned bits = 0;
    for (const std::uint64_t value : values) {
      pending |= static_cast<Wide>(value) << bits;
      bits += width;
      std::memcpy(place, &pending, sizeof pending);
      place += bits / 8;
      pending >>= bits & ~7U;
      bits &= 7U;
    }
    std::memcpy(place, &pending, sizeof(std::uint64_t));
  }
  out.resize(begin + size);
}

}  // namespace

void pack_column(std::span<const std::uint64_t> bits, NumberKind kind, std::string& out) {
  std::array<std::uint64_t, kMaxColumn> buffer;
  const std::span<std::uint64_t> values(buffer.data(), bits.size());
  std::uint8_t flags = 0;
  std::uint8_t shift = 0;
  transform(bits, kind, values, flags, shift);
  const Fit fit = best_fit(values);
  const std::uint64_t limit = fit.width == 64 ? UINT64_MAX : (std::uint64_t{1} << fit.width) - 1;
  std::array<std::uint8_t, kMaxColumn> exceptions;
  std::array<std::uint64_t, kMaxColumn> apart;
  std::size_t exception_count = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] < fit.base || values[i] - fit.base > limit) exceptions[exception_count++] = static_cast<std::uint8_t>(i);
  }
  if (exception_count > 0) flags |= kExceptions;
  out.push_back(static_cast<char>(flags | (shift << 3 & 0xF8)));
  out.push_back(static_cast<char>(fit.width | (shift >> 5 << 7)));
  put_varint(fit.base, out);
  if (exception_count > 0) out.push_back(static_cast<char>(exception_count));

  for (std::size_t i = 0; i < values.size(); ++i) values[i] -= fit.base;
  for (std::size_t i = 0; i < exception_count; ++i) apart[i] = std::exchange(values[exceptions[i]], 0) + fit.base;
  append_packed(values, fit.width, out);
  for (std::size_t i = 0; i < exception_count; ++i) {
    out.push_back(static_cast<char>(exceptions[i]));
    put_varint(apart[i], out);
  }
}

bool PackedColumn::open(std::string_view& bytes, std::size_t count, NumberKind kind) {
  if (bytes.size() < 2 || count > kMaxColumn) return false;
  const auto first = static_cast<std::uint8_t>(bytes[0]);
  const auto second = static_cast<std::uint8_t>(bytes[1]);
  flags_ = first & 7U;
  shift_ = static_cast<std::uint8_t>(first >> 3 | (second >> 7) << 5);
  width_ = second & 0x7FU;
  kind_ = kind;
  bytes.remove_prefix(2);
  if (width_ > 64 || !take_varint(bytes, base_)) return false;
  std::size_t exceptions = 0;
  if (flags_ & kExceptions) {
    if (bytes.empty()) return false;
    exceptions = static_cast<std::uint8_t>(bytes.front());
    bytes.remove_prefix(1);
  }
  const std::size_t size = (count * width_ + 7) / 8;
  if (bytes.size() < size) return false;
  packed_ = bytes.data();
  packed_end_ = packed_ + size;
  bytes.remove_prefix(size);
  const std::string_view from = bytes;
  for (std::size_t i = 0; i < exceptions; ++i) {
    std::uint64_t ignored = 0;
    if (bytes.empty()) return false;
    bytes.remove_prefix(1);
    if (!take_varint(bytes, ignored)) return false;
  }
  exceptions_ = from.substr(0, from.size() - bytes.size());
  return true;
}

std::uint64_t PackedColumn::restore(std::uint64_t value) const {
  if (kind_ == NumberKind::kInteger) return value;
  const std::uint64_t sign = std::uint64_t{1} << sign_bit(kind_);
  const bool negative = flags_ & kMixed ? (value & 1) != 0 : (flags_ & kNegative) != 0;
  const std::uint64_t magnitude = (flags_ & kMixed ? value >> 1 : value) << shift_;
  return negative ? magnitude | sign : magnitude;
}

void PackedColumn::unpack(std::span<std::uint64_t> out) const {
  std::size_t i = 0;
  if (width_ == 0) {
    std::fill(out.begin(), out.end(), base_);
    i = out.size();
  } else if (width_ <= kWordBits) {
    const std::uint64_t mask = (std::uint64_t{1} << width_) - 1;
    const auto size = static_cast<std::size_t>(packed_end_ - packed_);
    const std::size_t whole = size < 8 ? 0 : std::min(out.size(), (size - 8) * 8 / width_ + 1);
    for (std::size_t bit = 0; i < whole; ++i, bit += width_) {
      std::uint64_t word = 0;
      std::memcpy(&word, packed_ + bit / 8, sizeof word);
      out[i] = base_ + (word >> bit % 8 & mask);
    }
  }
  for (; i < out.size(); ++i) out[i] = packed_at(i);
  for (std::string_view rest = exceptions_; !rest.empty();) {
    const auto place = static_cast<std::uint8_t>(rest.front());
    rest.remove_prefix(1);
    std::uint64_t value = 0;
    take_varint(rest, value);
    if (place < out.size()) out[place] = value;
  }
  if (kind_ == NumberKind::kInteger) return;
  const int sign = sign_bit(kind_);
  if (flags_ & kMixed) {
    for (auto& value : out) value = value >> 1 << shift_ | (value & 1) << sign;
  } else {
    const std::uint64_t negative = flags_ & kNegative ? std::uint64_t{1} << sign : 0;
    for (auto& value : out) value = value << shift_ | negative;
  }
}

std::uint64_t PackedColumn::at(std::size_t index) const {
  for (std::string_view rest = exceptions_; !rest.empty();) {
    const auto place = static_cast<std::uint8_t>(rest.front());
    rest.remove_prefix(1);
    std::uint64_t value = 0;
    take_varint(rest, value);
    if (place == index) return restore(value);
    if (place > index) break;
  }
  return restore(packed_at(index));
}

std::uint64_t PackedColumn::packed_at(std::size_t index) const {
  if (width_ == 0) return base_;
  const std::size_t bit = index * width_;
  const char* from = packed_ + bit / 8;
  const unsigned skip = bit % 8;
  const auto left = static_cast<std::size_t>(packed_end_ - from);
  static_assert(std::endian::native == std::endian::little);
  if (std::uint64_t word = 0; width_ <= kWordBits && left >= sizeof word) {
    std::memcpy(&word, from, sizeof word);
    return base_ + (word >> skip & ((std::uint64_t{1} << width_) - 1));
  }
  Wide word = 0;
  std::memcpy(&word, from, std::min<std::size_t>(9, left));
  const auto value = static_cast<std::uint64_t>(word >> skip);
  return base_ + (width_ == 64 ? value : value & ((std::uint64_t{1} << width_) - 1));
}

}  // namespace scalewatch::history
