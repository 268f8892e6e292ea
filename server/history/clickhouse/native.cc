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

Block::Block(std::string_view columns, Zeros zeros) : zeros_(zeros) {
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
  for (const Column& column : columns_) total += column.bytes_.view().size() + column.nulls_.size();
  return total;
}

namespace {

// Values of `Width` bytes each. Reads on and on and writes to as many places as there are tensors, which the processor's caches
// hold.
template <std::size_t Width>
void deal(const char* in, std::span<const std::uint32_t> places, char* to) {
  for (const std::uint32_t place : places) {
    std::memcpy(to + std::size_t{place} * Width, in, Width);
    in += Width;
  }
}

// `count` times the same value: pieces of one that the processor's caches hold.
void repeat(std::string_view one, std::size_t count, Block::Parts& parts) {
  constexpr std::size_t kPiece = std::size_t{1} << 15;
  std::string& piece = parts.heads.emplace_back();
  const std::size_t in_piece = std::min(count, kPiece / one.size());
  for (std::size_t i = 0; i < in_piece; ++i) piece += one;
  for (std::size_t left = count * one.size(); left > 0;) {
    parts.all.push_back(std::string_view(piece).substr(0, left));
    left -= parts.all.back().size();
  }
}

}  // namespace

void Block::reorder(std::span<const std::uint32_t> places) {
  if (places.size() != rows_) throw std::logic_error("an order of other rows");
  for (Column& column : columns_) {
    if (column.same_ > 0 || rows_ == 0) continue;  // any order is the order
    const std::string_view from = column.bytes_.view();
    scratch_.clear();
    char* const to = scratch_.add(from.size());
    switch (from.size() / rows_) {
      case 1:
        deal<1>(from.data(), places, to);
        break;
      case 2:
        deal<2>(from.data(), places, to);
        break;
      case 4:
        deal<4>(from.data(), places, to);
        break;
      case 8:
        deal<8>(from.data(), places, to);
        break;
      default:
        throw std::logic_error("a column of no numbers");
    }
    std::swap(column.bytes_, scratch_);
  }
}

Block::Parts Block::native(std::size_t first, std::size_t count) const {
  Parts parts;
  std::vector<const Column*> sent;
  for (const Column& column : columns_) {
    if (zeros_ == Zeros::kLeftOut && column.is_zero() && &column != &columns_.front()) continue;
    sent.push_back(&column);
    parts.columns += (parts.columns.empty() ? "" : ",") + column.name_;
  }
  std::string& head = parts.heads.emplace_back();
  put_varint(head, sent.size());
  put_varint(head, count);
  parts.all.emplace_back(head);
  for (const Column* column : sent) {
    std::string& its = parts.heads.emplace_back();
    for (const std::string& word : {column->name_, column->type_}) {
      put_varint(its, word.size());
      its += word;
    }
    parts.all.emplace_back(its);
    if (!column->nulls_.empty()) parts.all.emplace_back(column->nulls_);
    if (column->same_ > 0) {
      repeat({column->one_.data(), column->width_}, count, parts);
      continue;
    }
    std::string_view bytes = column->bytes_.view();
    if (count != rows_) bytes = bytes.substr(first * (bytes.size() / rows_), count * (bytes.size() / rows_));
    if (!bytes.empty()) parts.all.push_back(bytes);
  }
  return parts;
}

void Block::clear() {
  for (Column& column : columns_) column.clear();
  rows_ = 0;
}

std::string_view RowReader::text() {
  const std::uint64_t size = get_varint(at_, end_);
  return bytes(size);
}

}  // namespace scalewatch::clickhouse
