// Lines of any trainer that name their numbers: "step 100 | loss 2.31 | lr 3e-4", "Epoch: 3/10 - loss: 0.5", "[1,  2000]
// loss: 2.17", Keras' "123/500 [==>..] - loss: 0.5 - acc: 0.8". Hard to fool: it wants a loss, a scale, a gradient norm or a
// count of skips, and where the training is; names must be followed by ':' or '=' or the line hold little else; and some lines
// are surely no records.
#include <algorithm>
#include <cmath>

#include "server/logimport/formats/formats.h"
#include "server/logimport/formats/record.h"

namespace scalewatch::logimport {
namespace {

constexpr std::string_view kAnchors[] = {"loss", "scale", "norm", "skipped", "epoch"};
constexpr RecordRules kRules = {.sure = false};

constexpr std::size_t kMaxLooseWords = 14;     // beside names followed by ':' or '='
constexpr std::size_t kMaxLooseWordsBare = 4;  // beside names followed by blanks: prose has more
constexpr std::uint64_t kHeaderReach = 20000;  // lines for which a header ("Epoch 3/10") counts

constexpr std::size_t kAmong = 5;            // names on a line whose loss needs no place beside it
constexpr std::uint64_t kEnoughRecords = 3;  // after which a loss alone on its line is one too

// An option of a command line: " --lr", but not a dash between two parts of a message.
bool has_option(std::string_view text) {
  for (std::size_t at = text.find(" --"); at != std::string_view::npos; at = text.find(" --", at + 3)) {
    const char next = at + 3 < text.size() ? static_cast<char>(text[at + 3] | 32) : '\0';
    if (next >= 'a' && next <= 'z') return true;
  }
  return false;
}

// Code, command lines, settings and requests name numbers too.
bool is_something_else(std::string_view text) {
  static constexpr std::string_view kWords[] = {"Namespace(", "Arguments(", "Config(", "usage:",  "HTTP/",    "GET /",
                                                "POST /",     "def ",       "self.",   "return ", "#include", "assert ",
                                                " == ",       "{.",         ", .",     "://"};
  return has_option(text) || std::any_of(std::begin(kWords), std::end(kWords),
                                         [&](std::string_view w) { return text.find(w) != std::string_view::npos; });
}

// "123/500 [====>....] - loss: 0.5", or a bar that is done: "500/500 - 2s 20ms/step - loss: 0.5".
bool is_keras(std::string_view text) {
  static constexpr std::string_view kBars[] = {"/step - ", "=] - ", ">] - ", ".] - "};
  return std::any_of(std::begin(kBars), std::end(kBars),
                     [&](std::string_view bar) { return text.find(bar) != std::string_view::npos; });
}

// Most lines that hold a word such as "loss" are prose, and have no number behind it.
bool has_number(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; }) ||
         text.find("nan") != std::string_view::npos || text.find("inf") != std::string_view::npos ||
         text.find("NaN") != std::string_view::npos;
}

class KeyValue final : public Format {
 public:
  std::string_view name() const override { return "key_value"; }
  std::span<const std::string_view> anchors() const override { return kAnchors; }

  void read(const Line& line, std::size_t at, std::size_t /*anchor*/, Readings& out) override {
    if (!has_number(line.text.substr(at))) return;
    gaps_.clear();
    for (const std::string_view gap : out.gaps()) {
      if (gap.size() >= kMinText && gaps_.size() < kMaxGaps) gaps_.push_back(gap);
    }
    for (const std::string_view gap : gaps_) {
      const auto begin = static_cast<std::size_t>(gap.data() - line.text.data());
      const std::size_t skip = line.body > begin && line.body < begin + gap.size() ? line.body - begin : 0;
      part(line, gap.substr(skip), begin + skip, out);
    }
  }

 private:
  static constexpr std::size_t kMinText = 6;
  static constexpr std::size_t kMaxGaps = 8;

  void part(const Line& line, std::string_view text, std::size_t begin, Readings& out) {
    pairs_.read(text);
    if (pairs_.size() == 0) return;
    Reading& reading = out.add(Reading::Kind::kRecord, begin);
    const Evidence e = fill_record(pairs_, kRules, reading);
    if (!e.loss && !e.scale && !e.grad_norm && !e.skipped) {
      if (reading.epoch && !e.evaluation && pairs_.size() <= 3 && pairs_.loose_words() <= 4) header(line, *reading.epoch);
      out.drop_last();
      return;
    }
    if (!is_record(line, e, reading) || is_something_else(text)) {
      if (lone_scale(e, reading)) {
        reading.kind = Reading::Kind::kScale;
        return;
      }
      out.drop_last();
      return;
    }
    reading.kind = Reading::Kind::kRecord;
    ++records_;
    // Keras' bars: means since the epoch began. The last one of an epoch is the mean of that interval.
    if (is_keras(text)) {
      const bool last = reading.batch && reading.batch == reading.batches_per_epoch;
      reading.loss_span = last ? Reading::Span::kInterval : Reading::Span::kTotal;
    }
    complete(line, e, reading);
  }

  bool header_near(const Line& line) const { return header_epoch_ && line.number - header_line_ <= kHeaderReach; }

  bool is_record(const Line& line, const Evidence& e, const Reading& reading) const {
    const std::size_t loose = pairs_.loose_words();
    const bool company = e.lr || e.accuracy || e.grad_norm || e.scale || (e.whole_loss && e.skipped);
    if (!e.whole_loss && e.loss && !e.scale && !e.grad_norm) {  // parts alone
      return e.position && e.explicit_key && pairs_.size() >= 3 && loose <= kMaxLooseWordsBare * 2;
    }
    if (e.explicit_key) {
      if (e.position) return loose <= kMaxLooseWords;
      if (e.whole_loss && company) return loose <= kMaxLooseWordsBare * 2;
      if (e.whole_loss && e.evaluation) return records_ > 0 && loose <= kMaxLooseWordsBare * 2;
      // One of several named numbers; a share of packets is another loss, and mostly none.
      const bool among = pairs_.size() >= kAmong && reading.loss && *reading.loss != std::floor(*reading.loss);
      return e.whole_loss && (header_near(line) || records_ >= kEnoughRecords || among) && loose <= kMaxLooseWordsBare;
    }
    return e.position && (e.whole_loss || e.scale) && loose <= kMaxLooseWordsBare;
  }

  // "loss_scale: 32768" and nothing else. Zero is the usual setting for a dynamic scale.
  bool lone_scale(const Evidence& e, const Reading& reading) const {
    return e.scale && !e.loss && pairs_.size() == 1 && pairs_.loose_words() <= 2 && *reading.scale > 0 &&
           (e.explicit_key || pairs_.loose_words() == 0);
  }

  void header(const Line& line, double epoch) {
    header_epoch_ = epoch;
    header_line_ = line.number;
  }

  // What other lines tell of this one: its epoch, and whether steps begin again with each epoch.
  void complete(const Line& line, const Evidence& e, Reading& reading) {
    if (!reading.epoch && !reading.step && header_near(line)) reading.epoch = header_epoch_;
    if (e.evaluation || !reading.step || !reading.epoch || reading.batch) return;
    if (last_epoch_ && *reading.epoch > *last_epoch_ && *reading.step < last_step_) step_in_epoch_ = true;
    last_epoch_ = reading.epoch;
    last_step_ = *reading.step;
    if (step_in_epoch_) {
      reading.batch = reading.step;
      reading.batches_per_epoch = reading.steps_total;
      reading.step.reset();
      reading.steps_total.reset();
    }
  }

  Pairs pairs_;
  std::vector<std::string_view> gaps_;
  std::optional<double> header_epoch_;
  std::uint64_t header_line_ = 0;
  std::optional<double> last_epoch_;
  std::int64_t last_step_ = 0;
  bool step_in_epoch_ = false;
  std::uint64_t records_ = 0;
};

}  // namespace

std::unique_ptr<Format> make_key_value() {
  return std::make_unique<KeyValue>();
}

}  // namespace scalewatch::logimport
