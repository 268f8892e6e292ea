// A run that began from scratch has been stepping for long, and its loss is where it was.
#include <fmt/core.h>

#include "server/domain/rules/norm.h"
#include "server/domain/rules/rules.h"
#include "server/domain/rules/samples.h"

namespace scalewatch::domain {
namespace {

class LossUnchanged : public PersistedRule<LossUnchanged> {
 public:
  [[nodiscard]] std::string_view name() const override { return "LossUnchanged"; }

  void on_attempt(const ClosedAttempt& attempt, const RuleContext& context) override {
    const double loss = finite_loss(attempt.joined);
    const RunModel& run = context.run;
    const bool from_scratch = run.segment <= 1 && run.first_step.value_or(0) < kScratchSteps;
    if (std::isnan(loss) || !from_scratch || attempt.outcome == AttemptOutcome::kSkipped) return;
    const Thresholds& t = context.thresholds;
    // A log's record may stand for many attempts: then the first few of them are the start.
    const std::size_t first = run.from_log ? kFirstRecords : kFirst;
    if (first_.size() < first) first_.push(loss, first);
    recent_.push(loss, run.from_log ? kFirst : kRecent);
    const bool coarse = samples_ > 0 && attempt.attempt() > last_attempt_ + 1;
    coarse_ += coarse ? 1 : 0;
    ++samples_;
    last_attempt_ = attempt.attempt();
    // One look at a time when both windows are new.
    if (samples_ % kFirst != 0) return;
    const bool long_enough =
        run.applied + 1 >= t.loss_unchanged_applied ||
        (coarse_ * 2 > samples_ && samples_ >= t.loss_unchanged_records && attempt.attempt() >= t.loss_unchanged_applied);
    const auto lr = run.learning_rate();
    if (!long_enough || !lr || !(*lr > 0)) return;
    const double before = first_.median();
    const double now = recent_.median();
    const double noise = kSigmaOfMad * recent_.mad(now);
    const double moved = std::abs(now - before);
    const double limit = t.loss_unchanged_sigmas * noise;
    // Whether a log is of a run from scratch is not known: a fine-tuned model's loss may hide a slow fall in its noise.
    const bool still = !run.from_log || std::max(moved, noise) <= kStill * std::abs(now);
    if (moved > limit || !still) {
      if (moved > kResolve * limit) context.sink.resolve(name(), {});
      return;
    }
    const Finding* open = context.sink.find(name(), {});
    Draft draft;
    draft.rule = name();
    draft.first_attempt = open != nullptr ? open->first_attempt : attempt.attempt();
    draft.first_step = open != nullptr ? open->first_step : attempt.step();
    draft.attempt = attempt.attempt();
    draft.step = attempt.step();
    draft.summary = fmt::format(
        "after {} applied steps with learning rate {} the loss is {} as it was at the start ({}); its "
        "own noise is {}",
        run.applied + 1, number_text(*lr), number_text(now), number_text(before), number_text(noise));
    draft.evidence = {
        {"loss", now, "", {}},
        {"first_loss", before, "", {}},
        {"moved", moved, "", limit},
        {"applied", static_cast<double>(run.applied + 1), "attempts", static_cast<double>(t.loss_unchanged_applied)},
        {"lr", *lr, "", {}}};
    context.sink.raise(std::move(draft));
  }

  template <class A>
  void persist(A& a) {
    a(first_, recent_, samples_, coarse_, last_attempt_);
  }

 private:
  static constexpr std::int64_t kScratchSteps = 100;  // whoever resumes does so further on
  static constexpr std::size_t kFirst = 20;           // samples that its first value is the median of
  static constexpr std::size_t kFirstRecords = 3;
  static constexpr double kStill = 0.01;       // of the loss
  static constexpr std::size_t kRecent = 200;  // samples that its present value is the median of
  static constexpr double kResolve = 2;        // times the limit

  Samples first_;
  Samples recent_;
  std::uint64_t samples_ = 0;
  std::uint64_t coarse_ = 0;  // of them, with attempts left out before
  Attempt last_attempt_ = 0;
};

}  // namespace

std::unique_ptr<Rule> make_loss_unchanged() {
  return std::make_unique<LossUnchanged>();
}

}  // namespace scalewatch::domain
