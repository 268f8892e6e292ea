// ESPnet and FunASR: "2epoch:train:91-180batch: iter_time=.., loss=.., grad_norm=.., loss_scale=.., optim0_lr0=..". All numbers
// are means of the batches of the line. "2epoch results: [train] .. loss=.., [valid] .. loss=.." sums an epoch up.
#include <algorithm>

#include "server/logimport/formats/formats.h"
#include "server/logimport/formats/record.h"
#include "server/logimport/formats/text.h"

namespace scalewatch::logimport {
namespace {

constexpr std::string_view kAnchors[] = {"epoch:train:", "epoch results:"};
constexpr RecordRules kRules = {.loss_span = Reading::Span::kInterval,
                                .grad_norm_span = Reading::Span::kInterval,
                                .scale_span = Reading::Span::kInterval,
                                .counts_attempts = true};

class Espnet final : public Format {
 public:
  std::string_view name() const override { return "espnet"; }
  std::span<const std::string_view> anchors() const override { return kAnchors; }

  void read(const Line& line, std::size_t at, std::size_t anchor, Readings& out) override {
    const std::string_view gap = gap_at(line, at, out);
    const std::size_t begin = line.text.find_last_not_of("0123456789", at == 0 ? 0 : at - 1);
    const std::size_t digits = begin == std::string_view::npos ? 0 : begin + 1;
    const auto epoch = parse_number(line.text.substr(digits));
    const std::size_t end = static_cast<std::size_t>(gap.data() - line.text.data()) + gap.size();
    if (gap.empty() || digits >= at || !epoch) return;
    const std::string_view text = line.text.substr(at + kAnchors[anchor].size(), end - at - kAnchors[anchor].size());
    Reading& reading = out.add(Reading::Kind::kRecord, digits);
    if (!(anchor == 0 ? batches(text, reading) : results(text, reading))) {
      out.drop_last();
      return;
    }
    reading.epoch = epoch->value;
    out.claim(digits, end);
  }

 private:
  // "91-180batch: name=number, ..."
  bool batches(std::string_view text, Reading& reading) {
    const auto first = parse_number(text);
    if (!first || !first->integer || first->length >= text.size() || text[first->length] != '-') return false;
    const auto last = parse_number(text.substr(first->length + 1));
    if (!last || !last->integer) return false;
    const auto begin = first->count();
    const auto end = last->count();
    if (!begin || !end || *end < *begin) return false;
    const std::size_t colon = text.find(": ");
    if (colon == std::string_view::npos) return false;
    pairs_.read(text.substr(colon + 2));
    if (!settle_kind(fill_record(pairs_, kRules, reading), reading)) return false;
    reading.batch = end;
    reading.attempts_per_record = static_cast<std::uint64_t>(*end - *begin + 1);
    return true;
  }

  bool results(std::string_view text, Reading& reading) {
    const std::size_t valid = text.find("[valid]");
    if (valid == std::string_view::npos) return false;
    pairs_.read(text.substr(valid + 7));
    Reading of_valid;
    fill_record(pairs_, kRules, of_valid);
    reading.valid_loss = of_valid.loss ? of_valid.loss : of_valid.valid_loss;
    return reading.valid_loss.has_value();
  }

  Pairs pairs_;
};

}  // namespace

std::unique_ptr<Format> make_espnet() {
  return std::make_unique<Espnet>();
}

}  // namespace scalewatch::logimport
