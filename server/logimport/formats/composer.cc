// Composer's console: a head that says where the trainer is, then one line a number.
//   [epoch=0][batch=12/4000]:
//       Train time/batch: 11
//       Train loss/train/total: 8.9
//       Train lr-DecoupledAdamW/group0: 0.0001
// An evaluation has the same head, and "Eval metrics/eval/...: " lines.
#include <string>

#include "server/logimport/formats/formats.h"
#include "server/logimport/number.h"
#include "server/logimport/template.h"

namespace scalewatch::logimport {
namespace {

constexpr std::string_view kAnchors[] = {"[batch="};
constexpr std::uint64_t kMaxLines = 256;  // of one record

class Composer final : public Format {
 public:
  std::string_view name() const override { return "composer"; }
  std::span<const std::string_view> anchors() const override { return kAnchors; }
  bool open() const override { return held_.has_value(); }

  void read(const Line& line, std::size_t at, std::size_t /*anchor*/, Readings& out) override {
    Template::Match match;
    if (!head_.match(line.text, at, match) || match.end() != line.text.size()) return;
    Reading& reading = out.add(Reading::Kind::kRecord, at);
    const bool counts = match.apply(reading);
    if (counts) held_ = reading;
    out.drop_last();  // until its numbers are there
    if (counts) out.claim(at, match.end());
    lines_ = 0;
  }

  void read_next(const Line& line, Readings& out) override {
    const std::size_t name = line.text.find_first_not_of(" \t");
    const std::string_view text = name == std::string_view::npos ? std::string_view() : line.text.substr(name);
    const bool train = text.starts_with("Train ");
    const std::size_t colon = text.rfind(": ");
    if ((!train && !text.starts_with("Eval ")) || colon == std::string_view::npos || ++lines_ > kMaxLines) {
      finish(out);
      // The next head may follow at once.
      if (const std::size_t at = line.text.find(kAnchors[0]); at != std::string_view::npos) read(line, at, 0, out);
      return;
    }
    out.claim(0, line.text.size());
    const auto number = parse_number(text.substr(colon + 2));
    if (train && number) take(text.substr(6, colon - 6), number->value);
  }

  void finish(Readings& out) override {
    if (held_ && (held_->loss || held_->grad_norm)) out.add_late(*held_);
    held_.reset();
  }

 private:
  void take(std::string_view key, double value) {
    if (key.starts_with("loss/") && key.ends_with("/total")) {
      held_->loss = value;
      held_->loss_span = Reading::Span::kStep;
    } else if (key == "l2_norm/grad/global") {
      held_->grad_norm = value;
      held_->grad_norm_span = Reading::Span::kStep;
    } else if (key.starts_with("lr-") && !held_->lr) {
      held_->lr = value;
    }
  }

  Template head_{"[batch={batch}/{batches_per_epoch}]:"};
  std::optional<Reading> held_;
  std::uint64_t lines_ = 0;
};

}  // namespace

std::unique_ptr<Format> make_composer() {
  return std::make_unique<Composer>();
}

}  // namespace scalewatch::logimport
