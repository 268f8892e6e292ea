// A column of a block, as ClickHouse's Native format has it.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace scalewatch::clickhouse {

void put_varint(std::string& out, std::uint64_t value);

// Bytes that grow without being set before they are written; room stays when they are cleared.
class Bytes {
 public:
  // So many more, to be written by the caller.
  char* add(std::size_t count) {
    if (size_ + count > room_) grow(size_ + count);
    return bytes_.get() + std::exchange(size_, size_ + count);
  }
  void append(std::string_view bytes) {
    if (!bytes.empty()) std::memcpy(add(bytes.size()), bytes.data(), bytes.size());
  }
  [[nodiscard]] std::string_view view() const { return {bytes_.get(), size_}; }
  void clear() { size_ = 0; }

 private:
  void grow(std::size_t least);

  std::unique_ptr<char[]> bytes_;
  std::size_t size_ = 0;
  std::size_t room_ = 0;
};

// The bytes of a FixedString, as many as the type says.
struct Fixed {
  std::string_view bytes;
};

// One column of numbers or strings. `type` as ClickHouse writes it. Numbers that are all the same, as in half of the columns of
// `records` they mostly are, are kept as one.
class Column {
 public:
  Column(std::string name, std::string type) : name_(std::move(name)), type_(std::move(type)) {}

  template <class Number>
    requires std::is_arithmetic_v<Number>
  void add(Number value) {
    add_each(1, [value](std::size_t) { return value; });
  }
  // Many numbers at once: of(i) for each i below `count`.
  template <class Of>
  void add_each(std::size_t count, const Of& of) {
    using Number = std::decay_t<decltype(of(std::size_t{0}))>;
    static_assert(std::is_arithmetic_v<Number> && sizeof(Number) <= sizeof(One));
    std::size_t i = 0;
    if (bytes_.view().empty()) {
      for (; i < count; ++i) {
        const Number value = of(i);
        if (same_ + i == 0) {
          width_ = sizeof value;
          std::memcpy(one_.data(), &value, sizeof value);
        } else if (std::memcmp(one_.data(), &value, sizeof value) != 0) {
          break;
        }
      }
      same_ += i;
      if (i == count) return;
      unfold();
    }
    char* to = bytes_.add((count - i) * sizeof(Number));
    for (; i < count; ++i, to += sizeof(Number)) {
      const Number value = of(i);
      std::memcpy(to, &value, sizeof value);
    }
  }
  // String.
  void add(std::string_view text) {
    std::string size;
    put_varint(size, text.size());
    bytes_.append(size);
    bytes_.append(text);
  }
  void add(const std::string& text) { add(std::string_view(text)); }
  void add(Fixed fixed) { bytes_.append(fixed.bytes); }
  // Nullable.
  template <class Number>
  void add(const std::optional<Number>& value) {
    nulls_.push_back(value ? '\0' : '\1');
    add(value.value_or(Number{}));
  }
  // Of a column of numbers: the value in a row.
  template <class Number>
  [[nodiscard]] Number at(std::size_t row) const {
    Number value;
    std::memcpy(&value, same_ > 0 ? one_.data() : bytes_.view().data() + row * sizeof value, sizeof value);
    return value;
  }
  [[nodiscard]] bool is_zero() const { return same_ > 0 && one_ == One{} && nulls_.empty(); }

 private:
  friend class Block;
  using One = std::array<char, sizeof(std::uint64_t)>;
  void unfold();
  void clear();

  std::string name_;
  std::string type_;
  std::string nulls_;
  std::size_t same_ = 0;  // so many rows have `one_`, and bytes_ is empty
  std::size_t width_ = 0;
  One one_{};
  Bytes bytes_;
};

}  // namespace scalewatch::clickhouse
