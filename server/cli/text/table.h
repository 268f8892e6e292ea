// A table that fits the terminal. Not thread-safe.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "server/cli/text/layout.h"

namespace scalewatch::cli::text {

struct Column {
  std::string header;
  Align align = Align::kLeft;
  // Gives columns away when the table is too wide: its text is cut in the middle. What would then look like another row's text
  // stands whole on a line of its own above its row instead.
  bool flexible = false;
  bool whole = false;  // a flexible column that is never cut: all long text stands on its own line
};

struct Cell {
  std::string text;  // printable, see escape.h
  Style style = Style::kPlain;
};

class Table {
 public:
  explicit Table(std::vector<Column> columns);
  // One cell a column; missing ones are empty.
  void add(std::vector<Cell> row);
  [[nodiscard]] bool empty() const { return rows_.empty(); }
  // Prints header and rows within `width` columns (0 = no limit) as far as the flexible columns allow. No line ends in a blank.
  void print(std::ostream& out, int width, bool color, bool ascii) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace scalewatch::cli::text
