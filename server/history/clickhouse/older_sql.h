// Conditions in SQL of what is asked of old attempts. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "server/history/older_history.h"

namespace scalewatch::clickhouse {

std::string segment_is(const history::OlderRange& range);
// All of the range but with_records and each, which stands for `within` where it is.
std::string where(const history::OlderRange& range);
// " AND tensor IN (...)"; nothing for none.
std::string are_named(const history::OlderHistory::Tensors& tensors);
// As SQL has its key.
std::string tensor_number(const history::OlderHistory::Tensors::value_type& tensor);
std::string limited(std::size_t limit);
std::string between(const char* column, std::uint64_t first, std::uint64_t last);

// `column` lies in one of the intervals. `of`: gives an interval's ends in that column.
template <class Of>
std::string in_any(const char* column, const std::vector<history::Interval>& intervals, const Of& of) {
  std::string any;
  for (const auto& interval : intervals) {
    any += (any.empty() ? "" : " OR ") + between(column, of(interval.first), of(interval.last));
  }
  return "(" + any + ")";
}

// " AND ...": the range's tensors, each in its own attempts where it says so. Pairs are looked up: conditions on each would be
// compared one by one with every row that is read. `column`, `of`: as above.
template <class Of>
std::string are_named(const history::OlderRange& range, const history::OlderHistory::Tensors& tensors, const char* column,
                      const Of& of) {
  if (range.each.empty()) return are_named(tensors);
  std::string pairs;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::uint64_t last = of(range.each.at(i).last);
    for (std::uint64_t at = of(range.each[i].first); at <= last; ++at) {
      pairs += (pairs.empty() ? "(" : ",(") + tensor_number(tensors[i]) + "," + std::to_string(at) + ")";
    }
  }
  return std::string(" AND (tensor, ") + column + ") IN (" + pairs + ")";
}

}  // namespace scalewatch::clickhouse
