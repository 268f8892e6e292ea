// Small pictures of series made of characters. Pure and thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace scalewatch::cli::text {

// One value of a series. A mark stands for what has no height: 'N' NaN, 'I' Inf, '0' zero on a log axis. Marks are never
// lost when samples share a column.
struct Sample {
  std::optional<double> value;  // absent: nothing known
  char mark = 0;
};
Sample linear(std::optional<double> value);
// Base-2 logarithm; zero and negative values are marked '0'.
Sample log2_of(std::optional<double> value);

// Which sample stands for a column that several share.
enum class Keep : std::uint8_t { kLargest, kSmallest };

// Heights as eighth blocks, lowest to highest value of the series, one character a column, at most `width` columns.
// A series of equal values has middle height. Empty for an empty series.
std::string sparkline(std::span<const Sample> series, int width, Keep keep = Keep::kLargest, bool ascii = false);

// The line under a sparkline of the same length and width: each column's worst mark ('N' before 'I' before any other), blank
// where all are 0.
std::string marks(std::span<const char> series, int width);

// What a run's scale did at one attempt, or at several merged ones.
struct ScaleSample {
  std::uint64_t first_attempt = 0;
  std::uint64_t last_attempt = 0;
  std::optional<double> low;   // smallest scale
  std::optional<double> high;  // largest scale
  bool skipped = false;        // at least one of them was skipped or partial
};

// The scale over attempts on an octave axis with labels, skips marked in a line below, attempts at both ends of the axis.
// At most `width` columns and `height` rows of scale. Empty when no scale is known.
std::vector<std::string> plot_scale(std::span<const ScaleSample> series, int width, int height, bool ascii);

}  // namespace scalewatch::cli::text
