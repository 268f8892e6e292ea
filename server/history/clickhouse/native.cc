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

namespace {

// Values of `Bytes` each. Reads on and on and writes to as many places as there are tensors, which the processor's caches hold.
template <std::size_t Bytes>
void deal(const std::string& from, std::span<const std::uint32_t> places, std::string& to) {
  const char* in = from.data();
  char* const begin = to.data();
  for (const std::uint32_t place : places) {
    std::memcpy(begin + std::size_t{place} * Bytes, in, Bytes);
    in += Bytes;
  }
}

}  // namespace

void Block::reorder(std::span<const std::uint32_t> places) {
  if (places.size() != rows_) throw std::logic_error("an order of other rows");
  if (rows_ == 0) return;
  std::string ordered;
  for (Column& column : columns_) {
    const std::size_t bytes = column.bytes_.size() / rows_;
    // The same in all rows, as half of the columns mostly are: any order is the order.
    const std::string_view all(column.bytes_);
    if (all.substr(bytes) == all.substr(0, all.size() - bytes)) continue;
    ordered.resize(all.size());
    switch (bytes) {
      case 1:
        deal<1>(column.bytes_, places, ordered);
        break;
      case 2:
        deal<2>(column.bytes_, places, ordered);
        break;
      case 4:
        deal<4>(column.bytes_, places, ordered);
        break;
      case 8:
        deal<8>(column.bytes_, places, ordered);
        break;
      default:
        throw std::logic_error("a column of no numbers");
    }
    column.bytes_.swap(ordered);
  }
}

Block::Parts Block::native(std::size_t first, std::size_t count) const {
  Parts parts;
  std::string& head = parts.heads.emplace_back();
  put_varint(head, columns_.size());
  put_varint(head, count);
  parts.all.emplace_back(head);
  for (const Column& column : columns_) {
    std::string& its = parts.heads.emplace_back();
    for (const std::string& word : {column.name_, column.type_}) {
      put_varint(its, word.size());
      its += word;
    }
    parts.all.emplace_back(its);
    if (!column.nulls_.empty()) parts.all.emplace_back(column.nulls_);
    std::string_view bytes = column.bytes_;
    if (count != rows_) bytes = bytes.substr(first * (bytes.size() / rows_), count * (bytes.size() / rows_));
    if (!bytes.empty()) parts.all.push_back(bytes);
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
