// A picture of many series at once: one row a series, one character a column, one height for one value. Pure and thread-safe.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "server/cli/text/plot.h"

namespace scalewatch::cli::text {

// A column of a row: what its attempts had in common is lost, what was non-finite in any of them is not.
struct HeatCell {
  std::optional<double> value;
  char mark = 0;  // 'N' before 'I' before '0'

  // Folds an attempt in; Keep says which value stands for several.
  void add(const Sample& sample, Keep keep);
};

// The values that the shades stand for, least and largest of all rows.
struct HeatRange {
  double low = 0;
  double high = 0;
  bool empty = true;
};
HeatRange heat_range(std::span<const std::vector<HeatCell>> rows);

// One row as text of one column a cell: blocks of eighths in a terminal that shows Unicode, ASCII characters elsewhere; with
// colour the cell's background says the value and only marks are written. Blank where nothing is known.
std::string heat_row(std::span<const HeatCell> cells, const HeatRange& range, bool color, bool ascii);

// The shades from least to largest value, for a legend.
std::string heat_legend(bool color, bool ascii);

}  // namespace scalewatch::cli::text
