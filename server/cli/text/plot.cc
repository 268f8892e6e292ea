#include "server/cli/text/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>

#include "server/cli/text/layout.h"

namespace scalewatch::cli::text {

namespace {

constexpr std::array<std::string_view, 8> kBlocks{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::array<std::string_view, 8> kAsciiBlocks{"_", ".", "-", "~", "+", "=", "*", "#"};

std::size_t columns_for(std::size_t samples, int width) {
  return std::min(samples, static_cast<std::size_t>(std::max(width, 0)));
}

std::size_t column_of(std::size_t index, std::size_t samples, std::size_t columns) {
  return index * columns / samples;
}

// NaN before Inf before zero: the worst of a column is the one that is shown.
int rank_of(char mark) {
  return mark == 'N' ? 3 : mark == 'I' ? 2 : mark == 0 ? 0 : 1;
}

void merge(Sample& into, const Sample& from, Keep keep) {
  if (rank_of(from.mark) > rank_of(into.mark)) into.mark = from.mark;
  if (!from.value) return;
  const bool better = !into.value || (keep == Keep::kLargest ? *from.value > *into.value : *from.value < *into.value);
  if (better) into.value = from.value;
}

struct Extent {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  [[nodiscard]] bool empty() const { return low > high; }
};

// One column of the scale plot.
struct ScaleColumn {
  Extent octaves;
  char mark = 0;
  bool skipped = false;
};

// Base-2 logarithm of every scale that the series tells of.
template <class Visit>
void each_octave(std::span<const ScaleSample> series, const Visit& visit) {
  for (const auto& sample : series) {
    for (const auto& end : {sample.low, sample.high}) {
      if (const auto octave = log2_of(end).value) visit(*octave);
    }
  }
}

std::vector<ScaleColumn> scale_columns(std::span<const ScaleSample> series, std::size_t columns) {
  std::vector<ScaleColumn> out(columns);
  for (std::size_t i = 0; i < series.size(); ++i) {
    auto& column = out[column_of(i, series.size(), columns)];
    column.skipped = column.skipped || series[i].skipped;
    for (const auto& end : {series[i].low, series[i].high}) {
      const Sample sample = log2_of(end);
      if (sample.value) column.octaves.add(*sample.value);
      if (rank_of(sample.mark) > rank_of(column.mark)) column.mark = sample.mark;
    }
  }
  return out;
}

// The octave axis: row r, counted from the bottom, holds scales from 2^(bottom + r * step) up to the next row's.
struct Axis {
  int bottom = 0;
  int step = 1;
  int rows = 1;
  [[nodiscard]] int row(double octave) const {
    return std::clamp(static_cast<int>(std::floor((octave - bottom) / step)), 0, rows - 1);
  }
};

Axis axis_for(std::span<const ScaleSample> series, int height) {
  Extent all;
  each_octave(series, [&](double octave) { all.add(octave); });
  if (all.empty()) return {};
  Axis axis;
  axis.bottom = static_cast<int>(std::floor(all.low));
  const int octaves = static_cast<int>(std::floor(all.high)) - axis.bottom + 1;
  const int most = std::max(1, height);
  axis.step = (octaves + most - 1) / most;
  axis.rows = (octaves + axis.step - 1) / axis.step;
  return axis;
}

std::string octave_text(double octave) {
  return octave == std::floor(octave) ? fmt::format("{:.0f}", octave) : fmt::format("{:.1f}", octave);
}

// What the rows really hold, from the bottom: "2^15" for one scale, "2^14..15" for several, nothing for none.
std::vector<std::string> row_labels(std::span<const ScaleSample> series, const Axis& axis) {
  std::vector<Extent> held(static_cast<std::size_t>(axis.rows));
  each_octave(series, [&](double octave) { held[static_cast<std::size_t>(axis.row(octave))].add(octave); });
  std::vector<std::string> out;
  for (int row = 0; row < axis.rows; ++row) {
    const auto& extent = held[static_cast<std::size_t>(row)];
    if (extent.empty()) {
      out.push_back(axis.step == 1 ? fmt::format("2^{}", axis.bottom + row) : std::string());
      continue;
    }
    const auto low = octave_text(extent.low);
    const auto high = octave_text(extent.high);
    out.push_back(low == high ? "2^" + low : fmt::format("2^{}..{}", low, high));
  }
  return out;
}

std::string trimmed(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace

Sample linear(std::optional<double> value) {
  if (!value) return {};
  if (std::isnan(*value)) return {std::nullopt, 'N'};
  if (std::isinf(*value)) return {std::nullopt, 'I'};
  return {value, 0};
}

Sample log2_of(std::optional<double> value) {
  const Sample sample = linear(value);
  if (!sample.value) return sample;
  if (*sample.value <= 0) return {std::nullopt, '0'};
  return {std::log2(*sample.value), 0};
}

std::string sparkline(std::span<const Sample> series, int width, Keep keep, bool ascii) {
  const std::size_t columns = columns_for(series.size(), width);
  std::vector<Sample> merged(columns);
  Extent extent;
  for (std::size_t i = 0; i < series.size() && columns > 0; ++i) {
    merge(merged[column_of(i, series.size(), columns)], series[i], keep);
  }
  for (const auto& sample : merged) {
    if (sample.value) extent.add(*sample.value);
  }
  // Halves: the difference of two huge values may overflow.
  const double range = extent.empty() ? 0 : extent.high / 2 - extent.low / 2;
  const auto& blocks = ascii ? kAsciiBlocks : kBlocks;
  std::string out;
  for (const auto& sample : merged) {
    if (sample.mark != 0) {
      out += sample.mark;
    } else if (!sample.value) {
      out += ' ';
    } else if (range <= 0) {
      out += blocks[3];
    } else {
      const double share = (*sample.value / 2 - extent.low / 2) / range;
      out += blocks[static_cast<std::size_t>(std::clamp(std::lround(share * 7), 0L, 7L))];
    }
  }
  return out;
}

std::string marks(std::span<const char> series, int width) {
  const std::size_t columns = columns_for(series.size(), width);
  std::string out(columns, ' ');
  for (std::size_t i = 0; i < series.size() && columns > 0; ++i) {
    char& column = out[column_of(i, series.size(), columns)];
    if (rank_of(series[i]) > rank_of(column == ' ' ? 0 : column)) column = series[i];
  }
  return trimmed(std::move(out));
}

std::vector<std::string> plot_scale(std::span<const ScaleSample> series, int width, int height, bool ascii) {
  const bool known = std::any_of(series.begin(), series.end(), [](const ScaleSample& s) { return s.low || s.high; });
  if (!known) return {};
  const Axis axis = axis_for(series, height);
  const auto labels = row_labels(series, axis);
  int label = 6;  // "skips", and most scales
  for (const auto& text : labels) label = std::max(label, static_cast<int>(text.size()));
  const std::size_t room = columns_for(series.size(), std::max(1, width - label - 2));
  const auto columns = scale_columns(series, room);
  const std::string_view tick = ascii ? "|" : "┤";
  std::vector<std::string> lines;
  for (int row = axis.rows - 1; row >= 0; --row) {
    std::string line = pad(labels[static_cast<std::size_t>(row)], label, Align::kRight);
    line += ' ';
    line += tick;
    for (const auto& column : columns) {
      if (column.mark != 0 && row == 0) {
        line += column.mark;
      } else if (!column.octaves.empty() && row >= axis.row(column.octaves.low) && row <= axis.row(column.octaves.high)) {
        line += ascii ? "*" : "•";
      } else {
        line += ' ';
      }
    }
    lines.push_back(trimmed(std::move(line)));
  }
  std::string skips;
  for (const auto& column : columns) skips += column.skipped ? '^' : ' ';
  if (skips.find('^') != std::string::npos) lines.push_back(trimmed(pad("skips", label, Align::kRight) + "  " + skips));
  const std::string first = fmt::format("{}", series.front().first_attempt);
  const std::string last = fmt::format("{}", series.back().last_attempt);
  std::string ends(static_cast<std::size_t>(label + 2), ' ');
  ends += first;
  if (first != last) {
    const int missing = static_cast<int>(room) - static_cast<int>(first.size() + last.size());
    ends += std::string(static_cast<std::size_t>(std::max(1, missing)), ' ') + last;
  }
  lines.push_back(ends);
  return lines;
}

}  // namespace scalewatch::cli::text
