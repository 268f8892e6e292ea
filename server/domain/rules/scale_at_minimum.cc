// Steps are skipped while the scaler can't go any lower.
#include <fmt/core.h>

#include "server/domain/rules/rules.h"

namespace scalewatch::domain {
namespace {

class ScaleAtMinimum : public PersistedRule<ScaleAtMinimum> {
 public:
  [[nodiscard]] std::string_view name() const override { return "ScaleAtMinimum"; }

  void on_step(const ScalerStep& step, const RuleContext& context) override {
    const ScalerTrack& scaler = *step.scaler;
    const bool over = !step.fatal.empty();
    if (!over && (!scaler.dynamic || step.outcome == AttemptOutcome::kUnknown)) return;
    const Thresholds& t = context.thresholds;
    const std::string& subject = scaler.info.name;
    const bool skipped = step.outcome != AttemptOutcome::kApplied;
    const bool floor = step.at_floor || (scaler.floor > 0 && step.scale_before && *step.scale_before <= scaler.floor);
    // A scaler that raises at its floor never gets to skip there: the skip before is the last word.
    const bool last = !step.fatal_next.empty();
    if (!over && (!skipped || (!floor && !last))) {
      if (episodes_.clean(subject, t.event_resolve)) {
        states_.erase(subject);
        context.sink.resolve(name(), subject);
      }
      return;
    }
    episodes_.fired(subject);
    State& state = states_[subject];
    if (state.skips++ == 0) {
      state.first_attempt = step.attempt;
      state.first_step = step.step;
    }
    state.recent.push_back(step.attempt);
    while (!state.recent.empty() && state.recent.front() + t.scale_at_minimum_window <= step.attempt) state.recent.pop_front();
    const bool never = scaler.applied + scaler.partial == 0;
    const bool often = state.recent.size() >= t.scale_at_minimum_critical;
    const double scale = step.scale_after.value_or(step.scale_before.value_or(scaler.scale.value_or(scaler.floor)));
    Draft draft;
    draft.rule = name();
    draft.subject = subject;
    draft.severity = often || last || never || over ? Severity::kCritical : Severity::kWarning;
    draft.first_attempt = state.first_attempt;
    draft.first_step = state.first_step;
    draft.attempt = step.attempt;
    draft.step = step.step;
    if (over) {
      draft.summary = fmt::format("{} could go no lower than {} and ended the run: {}", scaler_text(subject), scale_text(scale),
                                  step.fatal);
    } else if (last) {
      draft.summary = fmt::format("{} is down to {} and ends the run at its next skip: {}", scaler_text(subject),
                                  scale_text(scale), step.fatal_next);
    } else {
      draft.summary = fmt::format("{} skipped {} of the last {} attempts at its smallest scale {}{}", scaler_text(subject),
                                  state.recent.size(), t.scale_at_minimum_window, scale_text(scale),
                                  never ? ", and has never applied any" : "");
    }
    draft.evidence = {{"skipped_at_floor", static_cast<double>(state.recent.size()), "attempts",
                       static_cast<double>(t.scale_at_minimum_critical)},
                      {"scale", scale, "", {}},
                      {"floor", scaler.floor, "", {}},
                      {"next_skip_is_fatal", last ? 1.0 : 0.0, "", {}}};
    draft.blames_skips = true;
    context.sink.raise(std::move(draft));
  }

  template <class A>
  void persist(A& a) {
    a(episodes_, states_);
  }

 private:
  struct State {
    std::uint64_t skips = 0;
    std::deque<Attempt> recent;  // within the window
    Attempt first_attempt = 0;
    std::int64_t first_step = 0;
    template <class A>
    void persist(A& a) {
      a(skips, recent, first_attempt, first_step);
    }
  };
  Episodes episodes_;
  std::map<std::string, State> states_;
};

}  // namespace

std::unique_ptr<Rule> make_scale_at_minimum() {
  return std::make_unique<ScaleAtMinimum>();
}

}  // namespace scalewatch::domain
