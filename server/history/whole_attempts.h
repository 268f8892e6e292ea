// Reading as many rows as whole attempts have.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "server/history/api_error.h"

namespace scalewatch::history {

// Rows of whole attempts: about `limit`, more when the first attempt has more. `read` gives the first `limit` rows in order of
// attempts. Throws ApiError for an attempt of which there are too many.
template <class Row>
std::vector<Row> whole_attempts(std::size_t limit, const std::function<std::vector<Row>(std::size_t limit)>& read) {
  constexpr std::size_t kWiden = 4;
  constexpr std::size_t kMaxRows = 16'000'000;
  for (;; limit *= kWiden) {
    std::vector<Row> rows = read(limit);
    if (rows.size() < limit) return rows;
    const std::uint64_t last = rows.back().attempt;
    if (rows.front().attempt != last) {
      std::erase_if(rows, [&](const Row& row) { return row.attempt == last; });
      return rows;
    }
    if (limit > kMaxRows) {
      throw ApiError{
          {engine::Status::kResourceExhausted, "attempt " + std::to_string(last) + " has more records than can be read"}};
    }
  }
}

}  // namespace scalewatch::history
