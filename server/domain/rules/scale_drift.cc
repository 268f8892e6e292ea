// The scale only ever falls: backoffs without a growth between.
#include <fmt/core.h>

#include <cmath>

#include "server/domain/rules/norm.h"
#include "server/domain/rules/rules.h"
#include "server/domain/rules/samples.h"

namespace scalewatch::domain {
namespace {

class ScaleDrift : public PersistedRule<ScaleDrift> {
 public:
  [[nodiscard]] std::string_view name() const override { return "ScaleDrift"; }

  void on_step(const ScalerStep& step, const RuleContext& context) override {
    look(step, context);
    if (step.report != nullptr) norms_.push(unscaled_norm(*step.report), kNorms);  // NaN is no sample
  }

  template <class A>
  void persist(A& a) {
    a(states_, norms_);
  }

 private:
  static constexpr std::size_t kNorms = 16;  // samples that tell what the norm is now

  void look(const ScalerStep& step, const RuleContext& context) {
    const ScalerTrack& scaler = *step.scaler;
    const std::string& subject = scaler.info.name;
    if (step.grew) {
      if (states_.erase(subject) > 0) context.sink.resolve(name(), subject);
      return;
    }
    const Thresholds& t = context.thresholds;
    if (!step.backed_off || !step.after_calibration) {
      // It has stopped falling; what fell is remembered until it grows.
      const auto state = states_.find(subject);
      if (state != states_.end() && ++state->second.steady == t.drift_window) context.sink.resolve(name(), subject);
      return;
    }
    State& state = states_[subject];
    state.steady = 0;
    if (state.backoffs++ == 0) {
      state.first_attempt = step.attempt;
      state.first_step = step.step;
      state.first_scale = *step.scale_before;
      state.norm = norms_.median();
    }
    state.recent.push_back(step.attempt);
    while (state.recent.front() + t.drift_window <= step.attempt) state.recent.pop_front();
    if (state.backoffs < t.drift_info) return;
    const double norm = norms_.median();
    const double rise = state.norm > 0 && norm > 0 ? std::log2(norm / state.norm) : 0;
    const bool grown = rise >= t.drift_norm_octaves;
    const bool often = state.recent.size() >= t.drift_warning;
    Draft draft;
    draft.rule = name();
    draft.subject = subject;
    draft.severity = grown || often ? Severity::kWarning : Severity::kInfo;
    draft.first_attempt = state.first_attempt;
    draft.first_step = state.first_step;
    draft.attempt = step.attempt;
    draft.step = step.step;
    draft.words = [=, &t, backoffs = state.backoffs, recent = static_cast<double>(state.recent.size()),
                   first = state.first_scale, first_norm = state.norm, scale = *step.scale_after](Finding& finding) {
      finding.summary = fmt::format(
          "the scale of {} fell {} times from {} to {} without growing once{}", scaler_text(finding.subject), backoffs,
          scale_text(first), scale_text(scale),
          grown ? fmt::format(", while the gradient norm rose from {} to {}", number_text(first_norm), number_text(norm))
                : std::string());
      finding.evidence = {{"backoffs", static_cast<double>(backoffs), "", static_cast<double>(t.drift_info)},
                          {"backoffs_in_window", recent, "", static_cast<double>(t.drift_warning)},
                          {"scale", scale, "", {}}};
      if (first_norm > 0) finding.evidence.push_back({"norm_rise", rise, "octaves", t.drift_norm_octaves});
    };
    draft.blames_skips = true;
    context.sink.raise(std::move(draft));
  }

  struct State {
    std::uint32_t backoffs = 0;  // since the last growth
    std::uint64_t steady = 0;    // attempts since the newest of them
    std::deque<Attempt> recent;  // of them, within the window
    double norm = 0;             // when the first came; 0 = not known
    double first_scale = 0;
    Attempt first_attempt = 0;
    std::int64_t first_step = 0;
    template <class A>
    void persist(A& a) {
      a(backoffs, steady, recent, norm, first_scale, first_attempt, first_step);
    }
  };
  std::map<std::string, State> states_;
  Samples norms_;
};

}  // namespace

std::unique_ptr<Rule> make_scale_drift() {
  return std::make_unique<ScaleDrift>();
}

}  // namespace scalewatch::domain
