// Tables that trainers draw line by line under a header, as fastai, skorch, notebooks of Hugging Face's Trainer and many
// scripts do:
//   epoch     train_loss  valid_loss  accuracy  time
//   0         0.512345    0.431234    0.812000  00:12
// Columns are kept apart by tabs, bars or at least two blanks; by single blanks where the header has nothing else.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "server/logimport/formats/formats.h"
#include "server/logimport/formats/record.h"

namespace scalewatch::logimport {
namespace {

constexpr std::string_view kAnchors[] = {"loss"};
constexpr std::size_t kMaxColumns = 32;
constexpr std::size_t kMaxHeader = 400;  // bytes; a longer line is no header
constexpr std::uint64_t kMaxOther = 4;   // lines between header and rows, or between rows

bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

// What no name of a column holds.
bool in_no_name(char c) {
  static constexpr auto kThese = [] {
    std::array<bool, 256> these{};
    for (const char one : {':', '=', '{', '}', '(', ')', '[', ']', ';', ',', '"', '\''}) {
      these[static_cast<unsigned char>(one)] = true;
    }
    return these;
  }();
  return kThese[static_cast<unsigned char>(c)];
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

enum class Gap : std::uint8_t { kBars, kTabs, kWide, kBlank };

Gap gap_of(std::string_view header) {
  if (header.find('|') != std::string_view::npos) return Gap::kBars;
  if (header.find('\t') != std::string_view::npos) return Gap::kTabs;
  return header.find("  ") != std::string_view::npos ? Gap::kWide : Gap::kBlank;
}

void cut(std::string_view line, Gap gap, std::vector<std::string_view>& cells) {
  cells.clear();
  line = trimmed(line);
  if (gap == Gap::kBars) {
    while (!line.empty() && line.front() == '|') line.remove_prefix(1);
    while (!line.empty() && line.back() == '|') line.remove_suffix(1);
  }
  while (cells.size() < kMaxColumns) {
    std::size_t end = std::string_view::npos;
    if (gap == Gap::kBars) end = line.find('|');
    if (gap == Gap::kTabs) end = line.find('\t');
    if (gap == Gap::kWide) end = line.find("  ");
    if (gap == Gap::kBlank) end = line.find(' ');
    cells.push_back(trimmed(line.substr(0, end)));
    if (end == std::string_view::npos) return;
    line.remove_prefix(end + 1);
    if (gap == Gap::kWide || gap == Gap::kBlank) line = trimmed(line);
  }
}

class ColumnTable final : public Format {
 public:
  std::string_view name() const override { return "column_table"; }
  std::span<const std::string_view> anchors() const override { return kAnchors; }
  bool open() const override { return !columns_.empty(); }

  void read(const Line& line, std::size_t /*at*/, std::size_t /*anchor*/, Readings& out) override {
    const std::string_view text = line.text.substr(line.body);
    if (text.size() > kMaxHeader || !header(text)) return;
    out.claim(line.body, line.text.size());
  }

  void read_next(const Line& line, Readings& out) override {
    const std::string_view text = line.text.substr(line.body);
    cut(text, gap_, cells_);
    if (cells_.size() == columns_.size() + 1 && cells_.back().starts_with('(')) cells_.pop_back();  // a time without a name
    pairs_.clear();
    std::size_t numbers = 0;
    for (std::size_t i = 0; i < cells_.size() && i < columns_.size(); ++i) {
      const auto number = parse_number(cells_[i]);
      if (!number || number->length != cells_[i].size()) continue;
      ++numbers;
      pairs_.add(columns_[i], *number);
    }
    // The first cell places the row, and a value follows it.
    if (cells_.size() != columns_.size() || numbers < 2 || pairs_[0].key.data() != columns_[0].data()) {
      if (text.size() <= kMaxHeader && header(text)) return;
      if (++others_ > kMaxOther) columns_.clear();
      return;
    }
    others_ = 0;
    Reading& reading = out.add(Reading::Kind::kRecord, line.body);
    const Evidence evidence = fill_record(pairs_, {}, reading);
    if (!evidence.position || !settle_kind(evidence, reading) || reading.kind != Reading::Kind::kRecord) {
      out.drop_last();
      return;
    }
    out.claim(line.body, line.text.size());
  }

 private:
  // Names only, the first a position, one of them a result.
  bool header(std::string_view text) {
    if (std::any_of(text.begin(), text.end(), in_no_name)) return false;
    const Gap gap = gap_of(text);
    cut(text, gap, cells_);
    if (cells_.size() < 2 || cells_.size() == kMaxColumns) return false;
    bool result = false;
    for (const std::string_view cell : cells_) {
      if (cell.empty() || cell.size() > 40) return false;
      if (parse_number(cell)) return false;
      const Meaning m = meaning_of(cell, true).meaning;
      result = result || m == Meaning::kLoss || m == Meaning::kLossMean || m == Meaning::kValidLoss || m == Meaning::kScale;
    }
    const Meaning first = meaning_of(cells_[0], true).meaning;
    const bool position =
        first == Meaning::kEpoch || first == Meaning::kStep || first == Meaning::kGlobalStep || first == Meaning::kBatch;
    if (!result || !position) return false;
    gap_ = gap;
    columns_.assign(cells_.begin(), cells_.end());
    others_ = 0;
    return true;
  }

  Gap gap_ = Gap::kWide;
  std::vector<std::string> columns_;
  std::vector<std::string_view> cells_;
  std::uint64_t others_ = 0;
  Pairs pairs_;
};

}  // namespace

std::unique_ptr<Format> make_column_table() {
  return std::make_unique<ColumnTable>();
}

}  // namespace scalewatch::logimport
