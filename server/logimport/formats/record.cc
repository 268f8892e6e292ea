#include "server/logimport/formats/record.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "server/logimport/formats/meaning_cache.h"
#include "server/logimport/formats/text.h"

namespace scalewatch::logimport {
namespace {

using Span = Reading::Span;

constexpr std::size_t kMaxListGap = 8;  // comma and blanks between two numbers of a list

class Filler {
 public:
  Filler(const Pairs& pairs, const RecordRules& rules, Reading& reading) : pairs_(pairs), rules_(rules), r_(reading) {}

  Evidence run() {
    r_.policy = rules_.policy;
    r_.step_counts_attempts = rules_.counts_attempts;
    phase();
    for (std::size_t i = 0; i < pairs_.size(); ++i) take(i);
    settle_position();
    settle_loss();
    return e_;
  }

 private:
  // Words that stand alone before the first named number: "Test: [0/196]", "| valid on 'valid' subset |".
  void phase() {
    bool train = false;
    for (const std::string_view* word = pairs_.words_begin(); word != pairs_.words_end(); ++word) {
      const PhaseWord phase = phase_word(*word);
      train = train || phase == PhaseWord::kTraining;
      e_.evaluation = e_.evaluation || phase == PhaseWord::kEvaluation;
    }
    if (train) e_.evaluation = false;
  }

  const KeyMeaning& meaning(const Pair& pair) {
    for (const KeyRule& rule : rules_.keys) {
      if (rule.key == pair.key) return own_ = {.meaning = rule.meaning};
    }
    return remembered_meaning(pair.key, pair.separator != ' ');
  }

  void take(std::size_t i) {
    const Pair& pair = pairs_[i];
    if (pair.key.empty()) {
      bare(i);
      return;
    }
    const KeyMeaning& m = meaning(pair);
    const double value = pair.number.value;
    const bool named = pair.separator != ' ';
    switch (m.meaning) {
      case Meaning::kNone:
        break;
      case Meaning::kEvaluation:
        if (pair.bracket != 0 && pair.of && fraction_ == nullptr) {  // Test: [10/40]
          fraction_ = &pair;
          e_.evaluation = true;
        }
        break;
      case Meaning::kMeanOfLast:
        if (i > 0 && last_loss_ == i - 1 && !pair.missing) mean_ = value;
        break;
      case Meaning::kLoss:
        if (pair.unit || pair.percent) break;
        loss(pair, m, i);
        break;
      case Meaning::kLossMean:
        if (pair.missing || pair.unit) break;
        if (!mean_) {
          mean_ = value;
          mean_span_ = rules_.second_span;
        }
        e_.explicit_key = e_.explicit_key || named;
        break;
      case Meaning::kLossPart:
        if (pair.missing || pair.unit || pair.percent) break;
        if (!part_ || (std::isfinite(*part_) && !std::isfinite(value))) part_ = value;
        e_.explicit_key = e_.explicit_key || named;
        break;
      case Meaning::kValidLoss:
        if (pair.missing || pair.unit || pair.percent) break;
        if (!r_.valid_loss) r_.valid_loss = value;
        e_.explicit_key = e_.explicit_key || named;
        break;
      case Meaning::kScale:
        scale(pair, m);
        break;
      case Meaning::kGradNorm:
        if (pair.missing || pair.unit || r_.grad_norm || (m.weak && !rules_.sure && !named)) break;
        r_.grad_norm = value;
        r_.grad_norm_span = rules_.grad_norm_span;
        e_.grad_norm = true;
        e_.explicit_key = e_.explicit_key || named;
        break;
      case Meaning::kLr:
        if (pair.missing || r_.lr || value < 0) break;
        r_.lr = value;
        e_.lr = true;
        break;
      case Meaning::kAccuracy:
        if (pair.missing || r_.accuracy || e_.evaluation) break;
        r_.accuracy = value;
        e_.accuracy = true;
        break;
      case Meaning::kSkipped:
        if (const auto count = pair.number.count(); count && !r_.skipped) {
          r_.skipped = static_cast<std::uint64_t>(*count);
          r_.skipped_span = m.total ? Span::kTotal : Span::kUnknown;
          e_.skipped = true;
        }
        break;
      case Meaning::kNanSkipped:
        if (const auto count = pair.number.count(); count && !r_.nan_skipped)
          r_.nan_skipped = static_cast<std::uint64_t>(*count);
        break;
      case Meaning::kEpoch:
        if (pair.unit || pair.percent || epoch_ != nullptr || (m.plural && !pair.of)) break;
        epoch_ = &pair;
        e_.evaluation = e_.evaluation || m.evaluation;
        break;
      case Meaning::kTrain:
        if (pair.bracket != 0 && pair.of) train_ = &pair;
        if (pair.bracket != 0) last_position_ = i;
        break;
      case Meaning::kStep:
      case Meaning::kGlobalStep:
        if (pair.unit || pair.percent || !pair.number.count()) break;
        if ((m.weak && pair.separator == ' ') || (m.plural && !pair.of && !rules_.sure)) break;
        if (step_ != nullptr && (step_global_ || m.meaning == Meaning::kStep)) break;
        step_ = &pair;
        step_global_ = m.meaning == Meaning::kGlobalStep;
        e_.evaluation = e_.evaluation || m.evaluation;
        break;
      case Meaning::kBatch:
        if (pair.unit || pair.percent || batch_ != nullptr || !pair.number.count()) break;
        batch_ = &pair;
        e_.evaluation = e_.evaluation || m.evaluation;
        break;
    }
    if (epoch_ == &pair || step_ == &pair || batch_ == &pair) last_position_ = i;
  }

  void loss(const Pair& pair, const KeyMeaning& m, std::size_t i) {
    last_loss_ = i;
    e_.explicit_key = e_.explicit_key || pair.separator != ' ';
    if (pair.missing) return;
    if (m.weak && (now_ || plain_)) {  // ce_loss beside loss
      return;
    }
    auto& slot = m.now ? now_ : plain_;
    if (slot && !(weak_ && !m.weak)) return;
    slot = pair.number.value;
    weak_ = m.weak;
    if (pair.second && !rules_.first_is_mean) {
      mean_ = pair.second->value;
      mean_span_ = rules_.second_span;
    }
  }

  void scale(const Pair& pair, const KeyMeaning& m) {
    if (pair.missing || pair.unit || pair.percent || r_.scale) return;
    if (m.weak && !rules_.sure) {
      weak_scale_ = &pair;
      return;
    }
    set_scale(pair);
  }

  void set_scale(const Pair& pair) {
    r_.scale = pair.number.value;
    r_.scale_quantum = pair.number.quantum;
    r_.scale_span = rules_.scale_span;
    e_.scale = true;
    e_.explicit_key = e_.explicit_key || pair.separator != ' ';
  }

  // A number without a name: a fraction is a position, and so is a number in brackets right behind an epoch.
  void bare(std::size_t i) {
    const Pair& pair = pairs_[i];
    const bool behind = pair.follows && last_position_ && *last_position_ + 1 == i;
    if (pair.of && pair.of->integer && pair.number.integer && pair.of->value > 0 && pair.number.value <= pair.of->value) {
      // [epoch/epochs][batch/batches] without a word
      if (fraction_ != nullptr && pair.follows && &pair == fraction_ + 1 && pair.bracket == '[' && fraction_->bracket == '[' &&
          epoch_ == nullptr && train_ == nullptr) {
        epoch_ = fraction_;
        fraction_ = &pair;
        fraction_behind_ = true;
        return;
      }
      if (fraction_ == nullptr || (behind && !fraction_behind_)) {
        fraction_ = &pair;
        fraction_behind_ = behind;
        if (behind) last_position_ = i;
      }
      return;
    }
    // [epoch,  batch] at the beginning.
    const Pair* before = i > 0 && i <= 2 ? &pairs_[i - 1] : nullptr;
    if (before != nullptr && before->key.empty() && before->bracket == '[' && !before->of && pair.bracket == 0 &&
        pair.begin - before->end <= kMaxListGap && before->number.count() && pair.number.count() && epoch_ == nullptr) {
      epoch_ = before;
      batch_ = &pair;
      last_position_ = i;
      return;
    }
    if (behind && pair.bracket == '[' && pair.number.count() && epoch_ != nullptr && batch_ == nullptr) {
      batch_ = &pair;
      last_position_ = i;
    }
  }

  static std::optional<std::int64_t> whole(const std::optional<Number>& number) {
    return number ? number->count() : std::nullopt;
  }

  void settle_position() {
    if (train_ != nullptr && epoch_ == nullptr) {
      // Train: [epoch/epochs][batch/batches], or Train: [batch/batches]
      if (fraction_ != nullptr && fraction_behind_) {
        epoch_ = train_;
      } else if (fraction_ == nullptr) {
        fraction_ = train_;
      }
    }
    if (epoch_ != nullptr) {
      r_.epoch = epoch_->number.value;
      e_.position = true;
    }
    if (step_ != nullptr && (rules_.step_in_epoch || (step_->of && epoch_ != nullptr && !step_global_)) && batch_ == nullptr) {
      batch_ = step_;
      step_ = nullptr;
    }
    if (step_ != nullptr) {
      r_.step = step_->number.count();
      r_.steps_total = whole(step_->of);
      e_.position = e_.step = true;
    }
    if (batch_ == nullptr && step_ == nullptr && fraction_ != nullptr) batch_ = fraction_;
    if (batch_ != nullptr) {
      r_.batch = batch_->number.count();
      r_.batches_per_epoch = whole(batch_->of);
      e_.position = e_.step = true;
    }
  }

  void settle_loss() {
    if (!now_ && !plain_ && !mean_ && !part_ && r_.valid_loss) {
      e_.loss = true;
    }
    if (weak_scale_ != nullptr && !r_.scale && e_.position && (plain_ || now_ || mean_)) set_scale(*weak_scale_);
    const std::optional<double> main = plain_ ? plain_ : now_ ? now_ : mean_;
    if (main || part_) e_.loss = true;
    e_.whole_loss = main.has_value() || r_.valid_loss.has_value();
    if (e_.evaluation) {
      if (!r_.valid_loss) r_.valid_loss = mean_ ? mean_ : main ? main : part_;
      r_.grad_norm.reset();
      r_.accuracy.reset();
      return;
    }
    if (!main) {
      r_.loss_part = part_;
      if (part_) r_.loss_span = rules_.loss_span;
      return;
    }
    const std::optional<double> single = plain_ ? plain_ : now_;
    if (mean_ && single) {
      r_.loss = mean_;
      r_.loss_span = mean_span_;
      r_.loss_now = single;
    } else if (mean_) {
      r_.loss = mean_;
      r_.loss_span = rules_.loss_span == Span::kUnknown ? mean_span_ : rules_.loss_span;
    } else {
      r_.loss = single;
      r_.loss_span = now_ && !plain_ ? Span::kStep : rules_.loss_span;
    }
  }

  const Pairs& pairs_;
  const RecordRules& rules_;
  KeyMeaning own_;  // that the rules give the key that is looked at
  Reading& r_;
  Evidence e_;
  const Pair* epoch_ = nullptr;
  const Pair* step_ = nullptr;
  const Pair* batch_ = nullptr;
  const Pair* train_ = nullptr;
  const Pair* fraction_ = nullptr;
  const Pair* weak_scale_ = nullptr;
  bool step_global_ = false;
  bool fraction_behind_ = false;
  bool weak_ = false;
  std::optional<std::size_t> last_position_;
  std::size_t last_loss_ = static_cast<std::size_t>(-1);
  std::optional<double> now_, plain_, mean_, part_;
  Span mean_span_ = Span::kTotal;
};

// Behind the brace that closes the one at `begin`, or the end of a line that was cut.
std::size_t brace_end(std::string_view text, std::size_t begin) {
  std::size_t open = 1;
  for (std::size_t at = begin + 1;;) {
    const std::size_t close = text.find('}', at);
    if (close == std::string_view::npos) return text.size();
    const std::string_view before = text.substr(0, close);
    for (std::size_t next = before.find('{', at); next != std::string_view::npos; next = before.find('{', next + 1)) ++open;
    at = close + 1;
    if (--open == 0) return at;
  }
}

// The outermost brace whose pair encloses `at`. Looks at a few: a line of thousands of braces is no record.
std::size_t outer_brace(std::string_view text, std::size_t from, std::size_t at) {
  for (int tries = 0; tries < 4; ++tries) {
    const std::size_t begin = text.find('{', from);
    if (begin == std::string_view::npos || begin > at) return std::string_view::npos;
    const std::size_t end = brace_end(text, begin);
    if (end > at) return begin;
    from = end;
  }
  const std::size_t last = text.rfind('{', at);
  return last == std::string_view::npos || last < from ? std::string_view::npos : last;
}

class RecordFormat final : public Format {
 public:
  explicit RecordFormat(const RecordSpec& spec) : spec_(spec) {}

  std::string_view name() const override { return spec_.name; }
  std::span<const std::string_view> anchors() const override { return spec_.anchors; }

  void read(const Line& line, std::size_t at, std::size_t /*anchor*/, Readings& out) override {
    for (const std::string_view word : spec_.needed) {
      if (::memmem(line.text.data(), line.text.size(), word.data(), word.size()) == nullptr) return;
    }
    const std::string_view gap = gap_at(line, at, out);
    if (gap.empty()) return;
    const auto gap_begin = static_cast<std::size_t>(gap.data() - line.text.data());
    std::size_t begin = std::max(gap_begin, std::min(line.body, at));
    std::size_t end = gap_begin + gap.size();
    if (spec_.region == RecordSpec::Region::kAnchor) begin = at;
    if (spec_.region == RecordSpec::Region::kBraces) {
      begin = outer_brace(line.text, gap_begin, at);
      if (begin == std::string_view::npos) return;
      end = std::min(end, brace_end(line.text, begin));
    }
    const std::string_view text = line.text.substr(begin, end - begin);
    pairs_.read(text);
    Reading& reading = out.add(Reading::Kind::kRecord, begin);
    const Evidence evidence = fill_record(pairs_, spec_.rules, reading);
    if (!settle_kind(evidence, reading) || (spec_.finish != nullptr && !spec_.finish(pairs_, reading))) {
      out.drop_last();
      return;
    }
    out.claim(begin, begin + text.size());
  }

 private:
  const RecordSpec& spec_;
  Pairs pairs_;
};

}  // namespace

Evidence fill_record(const Pairs& pairs, const RecordRules& rules, Reading& reading) {
  return Filler(pairs, rules, reading).run();
}

bool settle_kind(const Evidence& evidence, Reading& reading) {
  if (evidence.loss || evidence.scale || evidence.grad_norm || evidence.skipped) {
    reading.kind = Reading::Kind::kRecord;
    return true;
  }
  if (evidence.evaluation || !evidence.position) return false;
  reading.kind = Reading::Kind::kProgress;
  return true;
}

std::unique_ptr<Format> make_record_format(const RecordSpec& spec) {
  return std::make_unique<RecordFormat>(spec);
}

}  // namespace scalewatch::logimport
