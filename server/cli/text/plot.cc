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

// The octave axis: row r, counted from the bottom, stands for 2^(bottom + r * step).
struct Axis {
  int bottom = 0;
  int step = 1;
  int rows = 1;
  [[nodiscard]] int row(double octave) const {
    return std::clamp(static_cast<int>(std::lround((octave - bottom) / step)), 0, rows - 1);
  }
};

Axis axis_for(const std::vector<ScaleColumn>& columns, int height) {
  Extent all;
  for (const auto& column : columns) {
    if (column.octaves.empty()) continue;
    all.add(column.octaves.low);
    all.add(column.octaves.high);
  }
  if (all.empty()) return {};
  Axis axis;
  axis.bottom = static_cast<int>(std::floor(all.low));
  const int span = static_cast<int>(std::ceil(all.high)) - axis.bottom;
  axis.step = std::max(1, (span + std::max(1, height - 1) - 1) / std::max(1, height - 1));
  axis.rows = (span + axis.step - 1) / axis.step + 1;
  return axis;
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
  constexpr int kLabel = 6;  // "2^-149"
  const std::size_t room = columns_for(series.size(), std::max(1, width - kLabel - 2));
  const auto columns = scale_columns(series, room);
  const Axis axis = axis_for(columns, height);
  const std::string_view tick = ascii ? "|" : "┤";
  std::vector<std::string> lines;
  for (int row = axis.rows - 1; row >= 0; --row) {
    std::string line = pad(fmt::format("2^{}", axis.bottom + row * axis.step), kLabel, Align::kRight);
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
  if (skips.find('^') != std::string::npos) lines.push_back(trimmed(pad("skips", kLabel, Align::kRight) + "  " + skips));
  const std::string first = fmt::format("{}", series.front().first_attempt);
  const std::string last = fmt::format("{}", series.back().last_attempt);
  std::string ends(static_cast<std::size_t>(kLabel + 2), ' ');
  ends += first;
  if (first != last) {
    const int missing = static_cast<int>(room) - static_cast<int>(first.size() + last.size());
    ends += std::string(static_cast<std::size_t>(std::max(1, missing)), ' ') + last;
  }
  lines.push_back(ends);
  return lines;
}

}  // namespace scalewatch::cli::text
