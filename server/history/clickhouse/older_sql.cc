#include "server/history/clickhouse/older_sql.h"

#include "server/history/clickhouse/keys.h"

namespace scalewatch::clickhouse {

std::string segment_is(const history::OlderRange& range) {
  return "run = " + std::to_string(run_key(range.run_uid)) + " AND segment = " + std::to_string(range.segment);
}

std::string where(const history::OlderRange& range) {
  std::string out =
      segment_is(range) + " AND attempt >= " + std::to_string(range.first) + " AND attempt <= " + std::to_string(range.last);
  if (range.rank) out += " AND rank = " + std::to_string(*range.rank);
  if (!range.within.empty() && range.each.empty())
    out += " AND " + in_any("attempt", range.within, [](auto attempt) { return attempt; });
  return out;
}

std::string tensor_number(const history::OlderHistory::Tensors::value_type& tensor) {
  return std::to_string(tensor_key(tensor.first, tensor.second));
}

std::string are_named(const history::OlderHistory::Tensors& tensors) {
  std::string named;
  for (const auto& tensor : tensors) named += (named.empty() ? "" : ",") + tensor_number(tensor);
  return named.empty() ? "" : " AND tensor IN (" + named + ")";
}

std::string limited(std::size_t limit) {
  return " LIMIT " + std::to_string(limit);
}

std::string between(const char* column, std::uint64_t first, std::uint64_t last) {
  return std::string(column) + " BETWEEN " + std::to_string(first) + " AND " + std::to_string(last);
}

}  // namespace scalewatch::clickhouse
