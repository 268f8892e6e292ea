// The scale should have moved, by the scaler's own policy, and did not.
#include <fmt/core.h>

#include "server/domain/rules/rules.h"

namespace scalewatch::domain {
namespace {

class ScaleStuck : public PersistedRule<ScaleStuck> {
 public:
  [[nodiscard]] std::string_view name() const override { return "ScaleStuck"; }

  void on_step(const ScalerStep& step, const RuleContext& context) override {
    if (!step.expected_after || !step.scale_before || !step.scale_after) return;
    if (same_scale(*step.expected_after, *step.scale_before)) return;  // nothing was to happen
    const std::string& subject = step.scaler->info.name;
    if (!same_scale(*step.scale_after, *step.scale_before)) {
      if (states_.erase(subject) > 0) context.sink.resolve(name(), subject);
      return;
    }
    State& state = states_[subject];
    if (state.times++ == 0) {
      state.first_attempt = step.attempt;
      state.first_step = step.step;
    }
    if (state.times < context.thresholds.scale_stuck) return;
    Draft draft;
    draft.rule = name();
    draft.subject = subject;
    draft.first_attempt = state.first_attempt;
    draft.first_step = state.first_step;
    draft.attempt = step.attempt;
    draft.step = step.step;
    draft.summary = fmt::format(
        "the scale of {} stays at {} though its policy should have {} it, {} times now: update() is "
        "not called",
        scaler_text(subject), scale_text(*step.scale_before), *step.expected_after < *step.scale_before ? "lowered" : "raised",
        state.times);
    draft.evidence = {
        {"missed_changes", static_cast<double>(state.times), "", static_cast<double>(context.thresholds.scale_stuck)},
        {"scale", *step.scale_before, "", {}},
        {"expected_scale", *step.expected_after, "", {}}};
    draft.blames_skips = true;
    context.sink.raise(std::move(draft));
  }

  template <class A>
  void persist(A& a) {
    a(states_);
  }

 private:
  struct State {
    std::uint32_t times = 0;
    Attempt first_attempt = 0;
    std::int64_t first_step = 0;
    template <class A>
    void persist(A& a) {
      a(times, first_attempt, first_step);
    }
  };
  std::map<std::string, State> states_;
};

}  // namespace

std::unique_ptr<Rule> make_scale_stuck() {
  return std::make_unique<ScaleStuck>();
}

}  // namespace scalewatch::domain
