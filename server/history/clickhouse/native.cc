#include "server/history/clickhouse/native.h"

#include <algorithm>

namespace scalewatch::clickhouse {

namespace {

std::uint64_t get_varint(const char*& at, const char* end) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (at == end) break;
    const auto byte = static_cast<unsigned char>(*at++);
    value |= std::uint64_t{byte & 0x7fU} << shift;
    if (byte < 0x80) return value;
  }
  throw std::runtime_error("ClickHouse's answer ends too soon");
}

}  // namespace

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

Block::Block(std::string_view columns) {
  while (!columns.empty()) {
    const std::size_t end = std::min(columns.find(", "), columns.size());
    const std::string_view column = columns.substr(0, end);
    const std::size_t space = column.find(' ');
    columns_.emplace_back(std::string(column.substr(0, space)), std::string(column.substr(space + 1)));
    columns.remove_prefix(std::min(end + 2, columns.size()));
  }
}

std::size_t Block::bytes() const {
  std::size_t total = 0;
  for (const Column& column : columns_) total += column.bytes_.size() + column.nulls_.size();
  return total;
}

std::vector<std::string_view> Block::native() {
  head_.clear();
  put_varint(head_, columns_.size());
  put_varint(head_, rows_);
  std::vector<std::string_view> parts{head_};
  for (Column& column : columns_) {
    column.head_.clear();
    put_varint(column.head_, column.name_.size());
    column.head_ += column.name_;
    put_varint(column.head_, column.type_.size());
    column.head_ += column.type_;
    for (const std::string_view part :
         {std::string_view(column.head_), std::string_view(column.nulls_), std::string_view(column.bytes_)}) {
      if (!part.empty()) parts.push_back(part);
    }
  }
  return parts;
}

void Block::clear() {
  for (Column& column : columns_) {
    column.nulls_.clear();
    column.bytes_.clear();
  }
  rows_ = 0;
}

std::string_view RowReader::text() {
  const std::uint64_t size = get_varint(at_, end_);
  return bytes(size);
}

}  // namespace scalewatch::clickhouse
