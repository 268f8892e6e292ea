#include "server/history/row_check.h"

#include <bit>
#include <cmath>
#include <limits>

#include "server/engine/crc.h"

namespace scalewatch::history {

void RowCheck::put(std::uint8_t kind, std::uint64_t bits) {
  bytes_[size_++] = kind;
  for (int shift = 0; shift < 64; shift += 8) bytes_[size_++] = static_cast<unsigned char>(bits >> shift);
}

void RowCheck::add(double value) {
  // There is one NaN in the file.
  put(2, std::bit_cast<std::uint64_t>(std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value));
}

std::int64_t RowCheck::sum() const {
  return engine::crc32_of({reinterpret_cast<const char*>(bytes_.data()), size_});
}

bool row_is_whole(const Query& query, int first) {
  const int crc = query.columns() - 1;
  if (query.is_null(crc)) return true;
  RowCheck check;
  for (int column = first; column < crc; ++column) {
    query.is_integer(column) ? check.add(query.i64(column)) : check.add(query.number(column));
  }
  return check.sum() == query.i64(crc);
}

}  // namespace scalewatch::history
