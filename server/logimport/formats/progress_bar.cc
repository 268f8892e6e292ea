// The bars of tqdm, alone or as Lightning, NeMo, Accelerate, Diffusers, trlx and others dress them:
//   Epoch 3:  12%|###   | 100/800 [00:30<02:10,  5.3it/s, v_num=0, train/loss_step=0.5]
//   [losses/total_loss: 1.34 | losses/value_loss: 8.65]:  16%|##  | 1044/6400 [1:16:09<1:07:04,  1.33it/s]
// A bar of anything but training (loading, mapping, evaluation) is understood and says nothing.
#include <algorithm>

#include "server/logimport/formats/formats.h"
#include "server/logimport/formats/meaning_cache.h"
#include "server/logimport/formats/record.h"
#include "server/logimport/formats/text.h"

namespace scalewatch::logimport {
namespace {

constexpr std::string_view kAnchors[] = {"it/s", "s/it"};
constexpr RecordRules kRules = {.sure = true};
constexpr std::size_t kMaxTimes = 64;    // bytes of "[1:16:09<1:07:04,  1.33" before its "it/s"
constexpr std::size_t kMaxTitle = 1024;  // bytes of a title and the drawn bar

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_other_work(std::string_view word) {
  static constexpr std::string_view kWords[] = {"map",     "filter",   "cache",  "download", "load",   "shards",
                                                "files",   "examples", "split",  "scan",     "sanity", "infer",
                                                "predict", "sample",   "encode", "decode",   "copy"};
  char lower[16];
  if (word.size() >= sizeof lower) return false;
  std::transform(word.begin(), word.end(), lower, [](char c) { return static_cast<char>(c | 32); });
  const std::string_view text(lower, word.size());
  if (std::find(std::begin(kWords), std::end(kWords), text) != std::end(kWords)) return true;
  return text.ends_with("ing") && text.size() > 5 && text != "training" && text != "tuning" && text != "finetuning" &&
         text != "pretraining" && text != "learning" && text != "fitting" && text != "remaining";
}

// Where the bar's counter stands: "| 100/800 [", as done/total. Before `at`, the place of the rate.
struct Counter {
  std::size_t begin = std::string_view::npos;
  std::int64_t done = 0;
  std::int64_t total = 0;
};

Counter counter_before(std::string_view text, std::size_t at) {
  Counter out;
  const std::size_t from = at > kMaxTimes ? at - kMaxTimes : 0;
  const std::size_t near = text.substr(from, at - from).rfind('[');
  if (near == std::string_view::npos || from + near == 0) return out;
  const std::size_t open = from + near;
  std::size_t end = open;
  while (end > 0 && text[end - 1] == ' ') --end;
  std::size_t slash = end;
  while (slash > 0 && is_digit(text[slash - 1])) --slash;
  if (slash == end || slash == 0 || text[slash - 1] != '/') return out;
  std::size_t begin = slash - 1;
  while (begin > 0 && is_digit(text[begin - 1])) --begin;
  const auto done = parse_number(text.substr(begin));
  const auto total = parse_number(text.substr(slash));
  if (begin == slash - 1 || !done || !total || !done->count() || !total->count()) return out;
  out.begin = begin;
  out.done = *done->count();
  out.total = *total->count();
  return out;
}

// Words that say what a bar counts, where it is not the steps of a training.
bool is_training_title(std::string_view title, const Pairs& pairs) {
  for (const std::string_view* word = pairs.words_begin(); word != pairs.words_end(); ++word) {
    if (is_evaluation_word(*word)) return false;
  }
  for (const Pair& pair : pairs) {
    const KeyMeaning& m = remembered_meaning(pair.key, true);
    if (m.meaning == Meaning::kEpoch || m.meaning == Meaning::kStep || m.meaning == Meaning::kLoss) return !m.evaluation;
  }
  // Mapping, Tokenizing, Downloading, Sanity Checking, ...: what is done, and it is not training.
  for (std::size_t i = 0; i < title.size();) {
    std::size_t end = i;
    while (end < title.size() && is_letter(title[end])) ++end;
    if (end > i && is_other_work(title.substr(i, end - i))) return false;
    i = std::max(end, i + 1);
  }
  return true;
}

class ProgressBar final : public Format {
 public:
  std::string_view name() const override { return "progress_bar"; }
  std::span<const std::string_view> anchors() const override { return kAnchors; }
  bool every_place() const override { return true; }

  void read(const Line& line, std::size_t at, std::size_t /*anchor*/, Readings& out) override {
    const std::string_view gap = gap_at(line, at, out);
    if (gap.empty()) return;
    const auto gap_begin = static_cast<std::size_t>(gap.data() - line.text.data());
    const Counter counter = counter_before(gap, at - gap_begin);
    if (counter.begin == std::string_view::npos) return;
    // The title: from the end of a bar before on the same line.
    std::size_t begin = counter.begin > kMaxTitle ? counter.begin - kMaxTitle : 0;
    const std::string_view drawn = gap.substr(begin, counter.begin - begin);
    const std::size_t title_from = begin;
    const bool bar_before = drawn.find(']') != std::string_view::npos;
    for (const std::string_view end_of_bar : {std::string_view("it]"), std::string_view("it/s]")}) {
      if (!bar_before) break;
      const std::size_t before = drawn.rfind(end_of_bar);
      if (before != std::string_view::npos) begin = std::max(begin, title_from + before + end_of_bar.size());
    }
    begin = std::max(begin, body_begin(line, gap_begin));
    const std::size_t percent_at = drawn.rfind('%');
    const std::size_t percent = percent_at == std::string_view::npos ? percent_at : title_from + percent_at;
    const std::size_t title_begin = std::min(begin, counter.begin);
    const std::size_t title_end = percent == std::string_view::npos || percent < begin ? counter.begin : percent + 1;
    const std::string_view title = gap.substr(title_begin, title_end - title_begin);
    std::size_t end = at - gap_begin + 4;
    const std::size_t close = closing(gap, end);
    const std::string_view postfix = gap.substr(end, close - end);
    end = std::min(gap.size(), close + (close < gap.size() ? 1 : 0));

    Reading& reading = out.add(Reading::Kind::kProgress, gap_begin + begin);
    // Title and postfix name numbers; a title as "[losses/total_loss: 1.3 | ..]" too.
    title_.read(title);
    Evidence evidence = fill_record(title_, kRules, reading);
    const bool training = is_training_title(title, title_) && !evidence.evaluation;
    if (!evidence.loss && !postfix.empty()) {
      Reading of_postfix = reading;
      postfix_.read(postfix);
      evidence = fill_record(postfix_, kRules, of_postfix);
      of_postfix.epoch = of_postfix.epoch ? of_postfix.epoch : reading.epoch;
      reading = of_postfix;
    }
    out.claim(gap_begin + begin, gap_begin + end);
    if (!training && !(evidence.whole_loss && !title_is_evaluation())) {
      out.drop_last();
      return;
    }
    reading.kind = evidence.loss || evidence.scale || evidence.grad_norm ? Reading::Kind::kRecord : Reading::Kind::kProgress;
    place(counter, reading);
  }

 private:
  static std::size_t body_begin(const Line& line, std::size_t gap_begin) {
    return line.body > gap_begin ? line.body - gap_begin : 0;
  }

  bool title_is_evaluation() const {
    return std::any_of(title_.words_begin(), title_.words_end(),
                       [](std::string_view word) { return is_evaluation_word(word); });
  }

  // The bracket that ends the bar; values such as lr=[0.1] hold brackets themselves.
  static std::size_t closing(std::string_view text, std::size_t from) {
    std::size_t depth = 0;
    for (std::size_t i = from; i < text.size(); ++i) {
      if (text[i] == '[') ++depth;
      if (text[i] == ']' && depth-- == 0) return i;
    }
    return text.size();
  }

  static void place(const Counter& counter, Reading& reading) {
    if (reading.step) return;  // a postfix that names the step knows better
    // A total of one is a bar of epochs or files.
    if (reading.epoch) {
      reading.batch = counter.done;
      reading.batches_per_epoch = counter.total;
    } else {
      reading.batch.reset();
      reading.batches_per_epoch.reset();
      reading.step = counter.done;
      reading.steps_total = counter.total;
    }
  }

  Pairs title_;
  Pairs postfix_;
};

}  // namespace

std::unique_ptr<Format> make_progress_bar() {
  return std::make_unique<ProgressBar>();
}

}  // namespace scalewatch::logimport
