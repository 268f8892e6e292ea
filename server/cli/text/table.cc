#include "server/cli/text/table.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace scalewatch::cli::text {

namespace {

constexpr int kRoomy = 18;    // below this for a flexible column, the gap between columns shrinks to one blank
constexpr int kSmallest = 8;  // a flexible column is never cut below this

}  // namespace

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

void Table::add(std::vector<Cell> row) {
  row.resize(columns_.size());
  rows_.push_back(std::move(row));
}

void Table::print(std::ostream& out, int width, bool color, bool ascii) const {
  std::vector<int> widths;
  widths.reserve(columns_.size());
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    int widest = display_width(columns_[i].header);
    for (const auto& row : rows_) widest = std::max(widest, display_width(row[i].text));
    widths.push_back(widest);
  }
  const int gaps = static_cast<int>(columns_.size()) - 1;
  const int content = std::accumulate(widths.begin(), widths.end(), 0);
  int gap = 2;
  const auto flexible = std::find_if(columns_.begin(), columns_.end(), [](const Column& c) { return c.flexible; });
  if (width > 0 && content + gap * gaps > width && flexible != columns_.end()) {
    int& flex = widths[static_cast<std::size_t>(flexible - columns_.begin())];
    const int rest = content - flex;
    if (width - rest - gap * gaps < std::min(flex, kRoomy)) gap = 1;
    flex = std::min(flex, std::max(kSmallest, width - rest - gap * gaps));
  }
  const std::string blanks(static_cast<std::size_t>(gap), ' ');
  const auto print_row = [&](auto&& cell_of) {
    std::string line;
    std::string pending;  // blanks that only count when something follows
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const Cell cell = cell_of(i);
      const std::string shown = columns_[i].flexible ? truncate_middle(cell.text, widths[i], ascii) : cell.text;
      const std::string fill(static_cast<std::size_t>(std::max(0, widths[i] - display_width(shown))), ' ');
      if (i > 0) pending += blanks;
      if (columns_[i].align == Align::kRight) pending += fill;
      if (!shown.empty()) line += std::exchange(pending, {}) + paint(shown, cell.style, color);
      if (columns_[i].align == Align::kLeft) pending += fill;
    }
    out << line << '\n';
  };
  print_row([&](std::size_t i) { return Cell{columns_[i].header, Style::kDim}; });
  // What every text of the flexible column is cut to, and the texts behind it.
  std::map<std::string, std::set<std::string>> behind;
  const auto flex = static_cast<std::size_t>(flexible - columns_.begin());
  const auto cut = [&](const std::string& text) { return truncate_middle(text, widths[flex], ascii); };
  if (flexible != columns_.end()) {
    for (const auto& row : rows_) behind[cut(row[flex].text)].insert(row[flex].text);
  }
  for (const auto& row : rows_) {
    bool own_line = false;
    if (flexible != columns_.end()) {
      const auto shown = cut(row[flex].text);
      own_line = shown != row[flex].text && (flexible->whole || behind.at(shown).size() > 1);
    }
    if (own_line) {
      for (const auto& piece : pieces(row[flex].text, width)) out << paint(piece, row[flex].style, color) << '\n';
    }
    print_row([&](std::size_t i) { return own_line && i == flex ? Cell{} : row[i]; });
  }
}

}  // namespace scalewatch::cli::text
