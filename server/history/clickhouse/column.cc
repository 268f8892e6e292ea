#include "server/history/clickhouse/column.h"

#include <algorithm>

namespace scalewatch::clickhouse {

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

void Bytes::grow(std::size_t least) {
  constexpr std::size_t kFirst = 64;
  room_ = std::max({least, 2 * room_, kFirst});
  auto larger = std::make_unique_for_overwrite<char[]>(room_);
  if (size_ > 0) std::memcpy(larger.get(), bytes_.get(), size_);
  bytes_ = std::move(larger);
}

void Column::unfold() {
  if (same_ == 0) return;
  char* to = bytes_.add(same_ * width_);
  for (; same_ > 0; --same_, to += width_) std::memcpy(to, one_.data(), width_);
}

void Column::clear() {
  nulls_.clear();
  same_ = 0;
  one_ = {};
  bytes_.clear();
}

}  // namespace scalewatch::clickhouse
