// A series over attempts, folded into as many points as a picture has room for. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace scalewatch::cli::html {

// One attempt or several merged: extremes are kept, and how many values were NaN or infinite.
struct SeriesPoint {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::optional<double> low;   // smallest finite value; absent when there is none
  std::optional<double> high;  // largest finite value
  std::uint64_t nan = 0;
  std::uint64_t inf = 0;
};

class Series {
 public:
  // Attempts `first` to `last` (first <= last) in at most `points` points.
  Series(std::uint64_t first, std::uint64_t last, std::size_t points);
  // Attempts come in rising order and within the range.
  void add(std::uint64_t attempt, double value);
  [[nodiscard]] const std::vector<SeriesPoint>& points() const { return points_; }
  // Nothing was added, not even a NaN.
  [[nodiscard]] bool empty() const { return points_.empty(); }

 private:
  std::uint64_t first_;
  std::uint64_t width_;
  std::vector<SeriesPoint> points_;
};

}  // namespace scalewatch::cli::html
