// Tables: a header that names columns, then rows of numbers, separated by commas, semicolons or tabs. Lightning's metrics.csv,
// Ultralytics' results.csv, exports of experiment trackers, a user's own. A cell may be empty: a row says only what it holds.
#include <string>
#include <vector>

#include "server/logimport/formats/formats.h"
#include "server/logimport/formats/record.h"

namespace scalewatch::logimport {
namespace {

constexpr std::size_t kMaxRow = 64 * 1024;
constexpr std::size_t kMaxColumns = 2048;

std::string_view trimmed(std::string_view cell) {
  const auto is_edge = [](char c) { return c == ' ' || c == '"' || c == '\'' || c == '\r' || c == '\t'; };
  while (!cell.empty() && is_edge(cell.front())) cell.remove_prefix(1);
  while (!cell.empty() && is_edge(cell.back())) cell.remove_suffix(1);
  return cell;
}

// Calls each(index, cell) for the cells of a row. Quoted cells may hold the separator.
template <class Each>
std::size_t for_cells(std::string_view row, char separator, Each each) {
  std::size_t column = 0;
  std::size_t begin = 0;
  bool quoted = false;
  for (std::size_t i = 0; i <= row.size(); ++i) {
    if (i < row.size() && row[i] == '"') quoted = !quoted;
    if (i < row.size() && (row[i] != separator || quoted)) continue;
    each(column++, trimmed(row.substr(begin, i - begin)));
    begin = i + 1;
    if (column == kMaxColumns) break;
  }
  return column;
}

bool is_number(std::string_view cell) {
  const auto number = parse_number(cell);
  return number && number->length == cell.size();
}

bool is_position(Meaning m) {
  return m == Meaning::kStep || m == Meaning::kGlobalStep || m == Meaning::kEpoch || m == Meaning::kBatch;
}

bool is_result(Meaning m) {
  return m == Meaning::kLoss || m == Meaning::kLossMean || m == Meaning::kLossPart || m == Meaning::kValidLoss ||
         m == Meaning::kScale || m == Meaning::kGradNorm || m == Meaning::kSkipped;
}

// "train_loss" says by itself that the table is of a training.
bool is_training_loss(std::string_view cell, Meaning m) {
  return (m == Meaning::kLoss || m == Meaning::kLossMean) && cell.size() > 5 &&
         phase_word(cell.substr(0, 5)) == PhaseWord::kTraining;
}

std::string_view take_row(std::string_view& rest) {
  const std::size_t end = rest.find('\n');
  const std::string_view row = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  return !row.empty() && row.back() == '\r' ? row.substr(0, row.size() - 1) : row;
}

constexpr std::string_view kBom = "\xEF\xBB\xBF";

// The separator of a header that a table of training has; 0 for another text.
char separator_of(std::string_view header) {
  if (header.starts_with(kBom)) header.remove_prefix(kBom.size());
  for (const char separator : {',', '\t', ';'}) {
    std::size_t positions = 0, results = 0, numbers = 0;
    bool long_cell = false;
    const std::size_t columns = for_cells(header, separator, [&](std::size_t /*column*/, std::string_view cell) {
      const Meaning m = meaning_of(cell, true).meaning;
      positions += is_position(m) || is_training_loss(cell, m) ? 1 : 0;
      results += is_result(m) ? 1 : 0;
      numbers += is_number(cell) ? 1 : 0;
      long_cell = long_cell || cell.size() > 100 || cell.find_first_of(":={}[]") != std::string_view::npos;
    });
    if (columns >= 2 && positions >= 1 && results >= 1 && numbers == 0 && !long_cell) return separator;
  }
  return 0;
}

class Csv final : public ContentFormat {
 public:
  std::string_view name() const override { return "csv"; }

  bool recognises(std::string_view head) const override {
    const std::string_view header = take_row(head);
    const char separator = separator_of(header);
    if (separator == 0) return false;
    const std::string_view row = take_row(head);
    if (row.empty()) return false;
    std::size_t filled = 0, numbers = 0;
    const auto look = [&](std::size_t /*column*/, std::string_view cell) {
      filled += cell.empty() ? 0 : 1;
      numbers += is_number(cell) ? 1 : 0;
    };
    const std::size_t columns = for_cells(header, separator, [](std::size_t, std::string_view) {});
    return for_cells(row, separator, look) == columns && numbers >= 1 && numbers * 2 >= filled;
  }

  void feed(std::string_view bytes, ReadingSink& sink) override {
    while (!bytes.empty()) {
      const std::size_t end = bytes.find('\n');
      if (end == std::string_view::npos || !row_.empty()) {
        const std::string_view part = bytes.substr(0, end);
        if (row_.size() + part.size() <= kMaxRow) row_ += part;
        if (end == std::string_view::npos) return;
        row(row_, sink);
        row_.clear();
      } else {
        row(bytes.substr(0, end), sink);
      }
      bytes.remove_prefix(end + 1);
    }
  }

  void finish(ReadingSink& sink) override {
    if (!row_.empty()) row(row_, sink);
    row_.clear();
  }

 private:
  void row(std::string_view text, ReadingSink& sink) {
    ++line_;
    if (!text.empty() && text.back() == '\r') text.remove_suffix(1);
    if (separator_ == 0) {
      separator_ = separator_of(text);
      if (separator_ == 0) return;
      if (text.starts_with(kBom)) text.remove_prefix(kBom.size());
      for_cells(text, separator_, [this](std::size_t /*column*/, std::string_view cell) {
        columns_.emplace_back(meaning_of(cell, true).meaning == Meaning::kNone ? std::string_view() : cell);
      });
      return;
    }
    pairs_.clear();
    for_cells(text, separator_, [this](std::size_t column, std::string_view cell) {
      if (column >= columns_.size() || columns_[column].empty()) return;
      const auto number = parse_number(cell);
      if (number && number->length == cell.size()) pairs_.add(columns_[column], *number);
    });
    Reading reading;
    const Evidence evidence = fill_record(pairs_, {}, reading);
    if (!settle_kind(evidence, reading) || reading.kind != Reading::Kind::kRecord) return;
    reading.line = line_;
    reading.format = name();
    sink.take(reading);
  }

  std::string row_;  // the beginning of a row that a buffer's end has cut
  std::uint64_t line_ = 0;
  char separator_ = 0;
  std::vector<std::string> columns_;  // empty where a column means nothing here
  Pairs pairs_;
};

}  // namespace

std::unique_ptr<ContentFormat> make_csv() {
  return std::make_unique<Csv>();
}

}  // namespace scalewatch::logimport
