// ClickHouse's Native format for inserts, and RowBinary for results. Source: ClickHouse's documentation of its formats.
//
// Native is columns after another, each with its name and type: what a report has as columns is copied as columns, and the
// server copies them too where it would parse each value of RowBinary.
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace scalewatch::clickhouse {

void put_varint(std::string& out, std::uint64_t value);

// The bytes of a FixedString, as many as the type says.
struct Fixed {
  std::string_view bytes;
};

// One column of numbers or strings. `type` as ClickHouse writes it.
class Column {
 public:
  Column(std::string name, std::string type) : name_(std::move(name)), type_(std::move(type)) {}

  template <class Number>
    requires std::is_arithmetic_v<Number>
  void add(Number value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  // Many numbers at once: of(i) for each i below `count`.
  template <class Of>
  void add_each(std::size_t count, const Of& of) {
    using Number = std::decay_t<decltype(of(std::size_t{0}))>;
    static_assert(std::is_arithmetic_v<Number>);
    const std::size_t before = bytes_.size();
    bytes_.resize(before + count * sizeof(Number));
    char* to = bytes_.data() + before;
    for (std::size_t i = 0; i < count; ++i, to += sizeof(Number)) {
      const Number value = of(i);
      std::memcpy(to, &value, sizeof value);
    }
  }
  // String.
  void add(std::string_view text) {
    put_varint(bytes_, text.size());
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
    std::memcpy(&value, bytes_.data() + row * sizeof value, sizeof value);
    return value;
  }

 private:
  friend class Block;
  std::string name_;
  std::string type_;
  std::string nulls_;
  std::string bytes_;
};

// Rows of one table. Every row adds one value to each column.
class Block {
 public:
  // "name Type, name Type, ..."
  explicit Block(std::string_view columns);
  Column& operator[](std::size_t column) { return columns_[column]; }
  void row_done(std::size_t rows = 1) { rows_ += rows; }
  [[nodiscard]] std::size_t rows() const { return rows_; }
  [[nodiscard]] std::size_t bytes() const;
  // Puts each row of a block of numbers alone where `places` says, each place once.
  void reorder(std::span<const std::uint32_t> places);
  // The block as it is sent: parts that follow each other, valid until the block changes.
  struct Parts {
    std::deque<std::string> heads;  // what `all` points to beside the block
    std::vector<std::string_view> all;
  };
  [[nodiscard]] Parts native() const { return native(0, rows_); }
  // The same of `count` rows from `first` on; of a block of numbers alone unless it is all of them.
  [[nodiscard]] Parts native(std::size_t first, std::size_t count) const;
  void clear();

 private:
  std::vector<Column> columns_;
  std::size_t rows_ = 0;
};

// Adds a row, a value for each column in their order.
template <class... Values>
void add_row(Block& block, const Values&... values) {
  std::size_t column = 0;
  (block[column++].add(values), ...);
  block.row_done();
}

// Walks a result in RowBinary. Throws std::runtime_error beyond its end.
class RowReader {
 public:
  explicit RowReader(std::string_view bytes) : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}
  [[nodiscard]] bool done() const { return at_ == end_; }
  template <class Number>
  Number get() {
    Number value;
    need(sizeof value);
    std::memcpy(&value, at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  std::uint64_t u64() { return get<std::uint64_t>(); }
  std::uint32_t u32() { return get<std::uint32_t>(); }
  std::int64_t i64() { return get<std::int64_t>(); }
  std::string_view text();
  std::string_view bytes(std::size_t size) {
    need(size);
    const std::string_view value(at_, size);
    at_ += size;
    return value;
  }
  template <class Number>
  std::optional<Number> maybe() {
    if (get<std::uint8_t>() != 0) return std::nullopt;
    return get<Number>();
  }

 private:
  void need(std::size_t size) const {
    if (size > static_cast<std::size_t>(end_ - at_)) throw std::runtime_error("ClickHouse's answer ends too soon");
  }
  const char* at_;
  const char* end_;
};

}  // namespace scalewatch::clickhouse
