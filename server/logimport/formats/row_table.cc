// Tables with one name and one number a row, between two rules, as Stable-Baselines, Spinning Up and their relatives draw them:
//   ---------------------------------
//   | train/              |         |
//   |    n_updates        | 12410   |
//   |    value_loss       | 63.7    |
//   ---------------------------------
#include <string>
#include <vector>

#include "server/logimport/formats/formats.h"
#include "server/logimport/formats/record.h"

namespace scalewatch::logimport {
namespace {

constexpr std::string_view kAnchors[] = {"------------"};
constexpr std::size_t kMaxRows = 64;    // a longer table is no trainer's
constexpr std::size_t kMaxPrefix = 64;  // bytes before it
constexpr KeyRule kKeys[] = {{"n_updates", Meaning::kGlobalStep},
                             {"nupdates", Meaning::kGlobalStep},
                             {"iterations", Meaning::kStep},
                             {"total_timesteps", Meaning::kNone}};
constexpr RecordRules kRules = {.keys = kKeys, .loss_span = Reading::Span::kInterval};

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

// Nothing but dashes behind the prefix, which itself may take them for separators.
bool is_rule(std::string_view text) {
  const std::size_t before = text.find_last_not_of('-');
  const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
  return begin <= kMaxPrefix && text.size() - begin >= kAnchors[0].size();
}

class RowTable final : public Format {
 public:
  std::string_view name() const override { return "row_table"; }
  std::span<const std::string_view> anchors() const override { return kAnchors; }
  bool open() const override { return open_; }

  void read(const Line& line, std::size_t /*at*/, std::size_t /*anchor*/, Readings& /*out*/) override {
    open_ = is_rule(trimmed(line.text));
  }

  void read_next(const Line& line, Readings& out) override {
    const std::string_view text = trimmed(line.text.substr(line.body));
    if (is_rule(trimmed(line.text))) {
      if (!rows_.empty()) close(line, out);
    } else if (!row(text)) {
      rows_.clear();
      open_ = false;
    }
  }

 private:
  struct Row {
    std::string name;
    Number number;
  };

  // "| name | number |", or a row without a number.
  bool row(std::string_view text) {
    if (text.size() < 4 || text.back() != '|' || rows_.size() == kMaxRows) return false;
    text.remove_suffix(1);
    if (text.front() == '|') text.remove_prefix(1);  // else the prefix took it
    const std::size_t bar = text.find('|');
    if (bar == std::string_view::npos || text.find('|', bar + 1) != std::string_view::npos) return false;
    const std::string_view name = trimmed(text.substr(0, bar));
    const std::string_view value = trimmed(text.substr(bar + 1));
    const auto number = parse_number(value);
    rows_.push_back({std::string(name), number && number->length == value.size() ? *number : Number()});
    if (rows_.back().number.length == 0) rows_.back().name.clear();
    return true;
  }

  void close(const Line& line, Readings& out) {
    pairs_.clear();
    for (const Row& one : rows_) {
      if (!one.name.empty()) pairs_.add(one.name, one.number);
    }
    Reading& reading = out.add(Reading::Kind::kRecord, line.body);
    const Evidence evidence = fill_record(pairs_, kRules, reading);
    if (!evidence.loss || !evidence.position || !settle_kind(evidence, reading)) {
      out.drop_last();
    } else {
      out.claim(line.body, line.text.size());
    }
    rows_.clear();
    open_ = false;
  }

  bool open_ = false;
  std::vector<Row> rows_;
  Pairs pairs_;
};

}  // namespace

std::unique_ptr<Format> make_row_table() {
  return std::make_unique<RowTable>();
}

}  // namespace scalewatch::logimport
