// The trainer's step does not move on: the same step is tried again and again, and skipped.
#include <fmt/core.h>

#include "server/domain/rules/rules.h"

namespace scalewatch::domain {
namespace {

class StepFrozen : public PersistedRule<StepFrozen> {
 public:
  [[nodiscard]] std::string_view name() const override { return "StepFrozen"; }

  void on_step(const ScalerStep& step, const RuleContext& context) override {
    if (step.outcome == AttemptOutcome::kUnknown) return;
    const std::string& subject = step.scaler->info.name;
    State& state = states_[subject];
    if (state.attempts == 0 || state.step != step.step) {
      // Several attempts a step are this trainer's habit when they come without a skip.
      if (state.attempts > 0 && state.skips == 0) state.usual = std::max(state.usual, state.attempts);
      state.moved = state.moved || state.attempts > 0;
      state.step = step.step;
      state.first_attempt = step.attempt;
      state.attempts = 0;
      state.skips = 0;
      state.loss_lost = false;
    }
    ++state.attempts;
    // Hysteresis takes so many skips for a backoff by design.
    const std::uint32_t limit =
        (context.thresholds.step_frozen_attempts + static_cast<std::uint32_t>(step.scaler->hysteresis) - 1) * state.usual;
    // A loss that is lost as well is no search for a scale: then one attempt less is enough.
    const bool frozen = state.attempts + (state.loss_lost ? 1 : 0) >= limit && state.skips > 0;
    if (step.after_calibration && step.outcome != AttemptOutcome::kApplied) ++state.skips;
    state.loss_lost = state.loss_lost || (step.report != nullptr && step.report->training() && loss_non_finite(*step.report));
    // Of a trainer that numbers no steps all are the same.
    if (!frozen || !state.moved) {
      if (state.attempts == 1 && state.open) {
        state.open = false;
        context.sink.resolve(name(), subject);
      }
      return;
    }
    state.open = true;
    Draft draft;
    draft.rule = name();
    draft.subject = subject;
    draft.severity = Severity::kCritical;
    draft.first_attempt = state.first_attempt;
    draft.first_step = state.step;
    draft.attempt = step.attempt;
    draft.step = step.step;
    draft.summary = fmt::format("step {} has been tried {} times and skipped {} times: the run does not move on", state.step,
                                state.attempts, state.skips);
    draft.evidence = {{"attempts_on_step", static_cast<double>(state.attempts), "attempts", static_cast<double>(limit)},
                      {"skipped", static_cast<double>(state.skips), "attempts", {}}};
    if (step.scale_before) draft.evidence.push_back({"scale", *step.scale_before, "", {}});
    draft.blames_skips = true;
    context.sink.raise(std::move(draft));
  }

  template <class A>
  void persist(A& a) {
    a(states_);
  }

 private:
  struct State {
    std::int64_t step = 0;
    std::uint32_t attempts = 0;  // on this step
    std::uint32_t skips = 0;     // of them, after calibration
    std::uint32_t usual = 1;     // most attempts on a step without a skip
    bool moved = false;          // the step has changed before
    bool open = false;
    bool loss_lost = false;  // NaN or Inf on the scaler's leader at an attempt on this step
    Attempt first_attempt = 0;
    template <class A>
    void persist(A& a) {
      a(step, attempts, skips, usual, moved, open, loss_lost, first_attempt);
    }
  };
  std::map<std::string, State> states_;
};

}  // namespace

std::unique_ptr<Rule> make_step_frozen() {
  return std::make_unique<StepFrozen>();
}

}  // namespace scalewatch::domain
