#include "server/cli/text/heatmap.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "server/cli/text/layout.h"

namespace scalewatch::cli::text {

namespace {

constexpr std::size_t kShades = 8;
constexpr std::array<std::string_view, kShades> kBlocks{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::array<std::string_view, kShades> kAsciiShades{".", ":", "-", "=", "+", "*", "%", "@"};
// From cold to hot out of the 256 colours that terminals share.
constexpr std::array<int, kShades> kColors{17, 19, 25, 30, 70, 142, 172, 166};

int badness(char mark) {
  return mark == 'N' ? 3 : mark == 'I' ? 2 : mark == 0 ? 0 : 1;
}

std::string shade(std::size_t index, bool color, bool ascii) {
  if (color) return fmt::format("\x1b[48;5;{}m \x1b[0m", kColors[index]);
  return std::string(ascii ? kAsciiShades[index] : kBlocks[index]);
}

}  // namespace

void HeatCell::add(const Sample& sample, Keep keep) {
  if (badness(sample.mark) > badness(mark)) mark = sample.mark;
  if (!sample.value) return;
  if (!value || (keep == Keep::kLargest ? *sample.value > *value : *sample.value < *value)) value = sample.value;
}

HeatRange heat_range(std::span<const std::vector<HeatCell>> rows) {
  HeatRange range;
  for (const auto& row : rows) {
    for (const auto& cell : row) {
      if (!cell.value) continue;
      range.low = range.empty ? *cell.value : std::min(range.low, *cell.value);
      range.high = range.empty ? *cell.value : std::max(range.high, *cell.value);
      range.empty = false;
    }
  }
  return range;
}

std::string heat_row(std::span<const HeatCell> cells, const HeatRange& range, bool color, bool ascii) {
  std::string out;
  for (const auto& cell : cells) {
    if (cell.mark == 'N' || cell.mark == 'I') {
      out += paint(std::string(1, cell.mark), Style::kCritical, color);
    } else if (!cell.value) {
      out += cell.mark == 0 ? ' ' : cell.mark;
    } else {
      // Halves: the difference of two huge values may overflow.
      const double span = range.high / 2 - range.low / 2;
      const double share = span > 0 ? (*cell.value / 2 - range.low / 2) / span : 0.5;
      const auto index = std::clamp(std::lround(share * (kShades - 1)), 0L, static_cast<long>(kShades - 1));
      out += shade(static_cast<std::size_t>(index), color, ascii);
    }
  }
  // A line of colour ends where it ends; a plain one without blanks.
  if (!color) out.erase(out.find_last_not_of(' ') + 1);
  return out;
}

std::string heat_legend(bool color, bool ascii) {
  std::string out;
  for (std::size_t i = 0; i < kShades; ++i) out += shade(i, color, ascii);
  return out;
}

}  // namespace scalewatch::cli::text
