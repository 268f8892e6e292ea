// A series as an inline SVG picture, and what HTML needs of its text. Pure and thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "server/cli/html/series.h"

namespace scalewatch::cli::html {

// Text for between tags and inside quoted attributes: what has a meaning in HTML, and what escape.h calls unsafe, is escaped.
std::string escape(std::string_view bytes);

enum class Axis : std::uint8_t { kLinear, kLog2, kLog10 };

struct Plot {
  std::string title;  // plain text
  std::uint64_t first = 0;
  std::uint64_t last = 0;  // attempts at both ends of the axis
  Axis axis = Axis::kLinear;
  std::vector<SeriesPoint> points;
  std::vector<std::uint64_t> skips;  // attempts that were skipped, rising
};

// An <svg> element. Values that a logarithm has no place for (zero, negative) are left out of the line and counted in a note;
// NaN and Inf are red marks at the top, skips amber marks at the bottom.
std::string svg(const Plot& plot);

// kLog10 where all values are above zero and span more than two decades.
Axis axis_for(const std::vector<SeriesPoint>& points);

}  // namespace scalewatch::cli::html
