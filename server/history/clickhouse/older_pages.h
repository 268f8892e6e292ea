// How what is asked in pages is read.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace scalewatch::clickhouse {

// The first `limit` rows of a range of numbers (attempts, places). ClickHouse reads and sorts all that a question spans, so it
// is asked of few numbers at a time, `width` at first: of as many as will hold the rest as those before them did, and of many
// more where there were none. `read(first, last, limit, rows)` adds what is there, in order.
template <class Row, class Read>
std::vector<Row> paged(std::uint64_t first, std::uint64_t last, std::size_t limit, double width, const Read& read) {
  constexpr double kMostTimes = 16;
  const double least = width;
  std::vector<Row> rows;
  while (first <= last && rows.size() < limit) {
    const std::uint64_t end = width < static_cast<double>(last - first) ? first + static_cast<std::uint64_t>(width) : last;
    const std::size_t before = rows.size();
    read(first, end, limit - before, rows);
    if (end == last) break;
    first = end + 1;
    const auto found = static_cast<double>(std::max<std::size_t>(rows.size() - before, 1));
    width = std::min(width * kMostTimes, static_cast<double>(limit - rows.size()) / found * width + least);
  }
  return rows;
}

}  // namespace scalewatch::clickhouse
