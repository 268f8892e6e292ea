// Coqui TTS and its trainer: a head that says where the trainer is, then one line a number, with its mean in parentheses.
//    --> TIME: 2024-01-01 10:00:00 -- STEP: 25/400 -- GLOBAL_STEP: 25
//      | > loss: 3.6  (3.5)
//      | > amp_scaler: 16384.0  (16384.0)
//      | > grad_norm: 10.5
#include <algorithm>
#include <string>
#include <vector>

#include "server/logimport/formats/formats.h"
#include "server/logimport/formats/record.h"
#include "server/logimport/template.h"

namespace scalewatch::logimport {
namespace {

constexpr std::string_view kAnchors[] = {"-- GLOBAL_STEP: "};
constexpr std::string_view kRow = "| > ";
constexpr std::size_t kMaxRows = 128;
constexpr RecordRules kRules = {.loss_span = Reading::Span::kStep, .grad_norm_span = Reading::Span::kStep};

class Coqui final : public Format {
 public:
  std::string_view name() const override { return "coqui"; }
  std::span<const std::string_view> anchors() const override { return kAnchors; }
  bool open() const override { return held_.has_value(); }

  void read(const Line& line, std::size_t at, std::size_t /*anchor*/, Readings& out) override {
    Template::Match match;
    if (!head_.match(line.text, at, match)) return;
    Reading& reading = out.add(Reading::Kind::kRecord, at);
    const bool counts = match.apply(reading);
    if (counts) held_ = reading;
    out.drop_last();  // until its numbers are there
    if (counts) out.claim(line.body, line.text.size());
    rows_.clear();
  }

  void read_next(const Line& line, Readings& out) override {
    const std::size_t row = line.text.find(kRow);
    const bool empty = line.text.find_first_not_of(" \t") == std::string_view::npos;
    if (empty && rows_.empty()) return;
    if (row == std::string_view::npos || rows_.size() == kMaxRows) {
      finish(out);
      // The next head may follow at once.
      if (const std::size_t at = line.text.find(kAnchors[0]); at != std::string_view::npos) read(line, at, 0, out);
      return;
    }
    out.claim(0, line.text.size());
    const std::string_view text = line.text.substr(row + kRow.size());
    const std::size_t colon = text.find(": ");
    const auto number = colon == std::string_view::npos ? std::nullopt : parse_number(text.substr(colon + 2));
    if (number) rows_.push_back({std::string(text.substr(0, colon)), *number});
  }

  void finish(Readings& out) override {
    if (held_ && !rows_.empty()) {
      pairs_.clear();
      for (const Row& row : rows_) pairs_.add(row.name, row.number);
      const auto step = held_->step;
      const Evidence evidence = fill_record(pairs_, kRules, *held_);
      held_->step = step;
      // Of a model with several losses each has its number: loss_0, loss_1.
      std::optional<double> sum;
      for (const Row& row : rows_) {
        const bool numbered = row.name.starts_with("loss_") && row.name.size() > 5 &&
                              std::all_of(row.name.begin() + 5, row.name.end(), [](char c) { return c >= '0' && c <= '9'; });
        if (numbered) sum = sum.value_or(0) + row.number.value;
      }
      if (sum && !held_->loss) held_->loss = sum;
      if (evidence.loss || evidence.scale || evidence.grad_norm) out.add_late(*held_);
    }
    held_.reset();
    rows_.clear();
  }

 private:
  struct Row {
    std::string name;
    Number number;
  };

  Template head_{"-- GLOBAL_STEP: {step}"};
  std::optional<Reading> held_;
  std::vector<Row> rows_;
  Pairs pairs_;
};

}  // namespace

std::unique_ptr<Format> make_coqui() {
  return std::make_unique<Coqui>();
}

}  // namespace scalewatch::logimport
