// Conditions in SQL of what is asked of old attempts. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "server/history/older_history.h"

namespace scalewatch::clickhouse {

std::string segment_is(const history::OlderRange& range);
// All of the range but with_records.
std::string where(const history::OlderRange& range);
// " AND tensor IN (...)"; nothing for none.
std::string are_named(const history::OlderHistory::Tensors& tensors);
std::string limited(std::size_t limit);

// `column` lies in one of the intervals. `of`: gives an interval's ends in that column.
template <class Of>
std::string in_any(const char* column, const std::vector<history::Interval>& intervals, const Of& of) {
  std::string any;
  for (const auto& interval : intervals) {
    any += (any.empty() ? "" : " OR ") + std::string(column) + " BETWEEN " + std::to_string(of(interval.first)) + " AND " +
           std::to_string(of(interval.last));
  }
  return "(" + any + ")";
}

}  // namespace scalewatch::clickhouse
