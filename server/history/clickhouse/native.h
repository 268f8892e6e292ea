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
#include <vector>

#include "server/history/clickhouse/column.h"

namespace scalewatch::clickhouse {

// Rows of one table. Every row adds one value to each column.
class Block {
 public:
  // Columns that are 0 in all rows are sent, or left out for ClickHouse to fill: of a table whose columns have no other
  // default.
  enum class Zeros : std::uint8_t { kSent, kLeftOut };
  // "name Type, name Type, ..."
  explicit Block(std::string_view columns, Zeros zeros = Zeros::kSent);
  Column& operator[](std::size_t column) { return columns_[column]; }
  void row_done(std::size_t rows = 1) { rows_ += rows; }
  [[nodiscard]] std::size_t rows() const { return rows_; }
  [[nodiscard]] std::size_t bytes() const;
  // Puts each row of a block of numbers alone where `places` says, each place once.
  void reorder(std::span<const std::uint32_t> places);
  // The block as it is sent: parts that follow each other, valid until the block changes.
  struct Parts {
    std::string columns;            // that are in it: "name,name"
    std::deque<std::string> heads;  // what `all` points to beside the block
    std::vector<std::string_view> all;
  };
  [[nodiscard]] Parts native() const { return native(0, rows_); }
  // The same of `count` rows from `first` on; of a block of numbers alone unless it is all of them.
  [[nodiscard]] Parts native(std::size_t first, std::size_t count) const;
  void clear();

 private:
  std::vector<Column> columns_;
  Zeros zeros_;
  std::size_t rows_ = 0;
  Bytes scratch_;
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
