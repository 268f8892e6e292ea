#include "server/cli/html/series.h"

#include <algorithm>
#include <cmath>

namespace scalewatch::cli::html {

Series::Series(std::uint64_t first, std::uint64_t last, std::size_t points)
    : first_(first), width_((last - first) / std::max<std::size_t>(1, points) + 1) {}

void Series::add(std::uint64_t attempt, double value) {
  const std::uint64_t bucket = (attempt - first_) / width_;
  if (points_.empty() || (points_.back().first - first_) / width_ != bucket) {
    points_.push_back({attempt, attempt, std::nullopt, std::nullopt, 0, 0});
  }
  auto& point = points_.back();
  point.last = attempt;
  if (std::isnan(value)) {
    ++point.nan;
  } else if (std::isinf(value)) {
    ++point.inf;
  } else {
    point.low = point.low ? std::min(*point.low, value) : value;
    point.high = point.high ? std::max(*point.high, value) : value;
  }
}

}  // namespace scalewatch::cli::html
