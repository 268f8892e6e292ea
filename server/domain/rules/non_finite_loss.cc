// The loss is NaN or Inf, with or without non-finite gradients.
#include <fmt/core.h>

#include <cmath>

#include "server/domain/rules/rules.h"

namespace scalewatch::domain {
namespace {

constexpr auto kEvaluation = "evaluation";

class NonFiniteLoss : public PersistedRule<NonFiniteLoss> {
 public:
  [[nodiscard]] std::string_view name() const override { return "NonFiniteLoss"; }

  void on_attempt(const ClosedAttempt& attempt, const RuleContext& context) override {
    look(attempt, true, training_, context);
    look(attempt, false, evaluation_, context);
  }

  template <class A>
  void persist(A& a) {
    a(episodes_, training_, evaluation_);
  }

 private:
  struct State {
    std::uint32_t streak = 0;  // attempts in a row
    std::uint32_t attempts = 0;
    Attempt first_attempt = 0;
    std::int64_t first_step = 0;
    template <class A>
    void persist(A& a) {
      a(streak, attempts, first_attempt, first_step);
    }
  };

  void look(const ClosedAttempt& attempt, bool training, State& state, const RuleContext& context) {
    std::vector<Rank> ranks;
    std::size_t losses = 0;
    double value = 0;
    for (const RankReport& report : attempt.joined.reports) {
      if (report.training() != training || !report.loss) continue;
      ++losses;
      if (!loss_non_finite(report)) continue;
      if (ranks.empty()) value = *report.loss;
      ranks.push_back(report.rank);
    }
    if (losses == 0) return;
    const std::string subject = training ? "" : kEvaluation;
    if (ranks.empty()) {
      state.streak = 0;
      if (!episodes_.clean(subject, context.thresholds.event_resolve)) return;
      state.attempts = 0;
      context.sink.resolve(name(), subject);
      return;
    }
    episodes_.fired(subject);
    ++state.streak;
    if (state.attempts++ == 0) {
      state.first_attempt = attempt.attempt();
      state.first_step = attempt.step();
    }
    const bool guarded =
        std::any_of(attempt.joined.reports.begin(), attempt.joined.reports.end(), [&](const RankReport& report) {
          return std::any_of(report.scalers.begin(), report.scalers.end(),
                             [&](const ScalerReport& scaler) { return context.run.scalers[scaler.track].guards; });
        });
    const bool applied = attempt.outcome == AttemptOutcome::kApplied || attempt.outcome == AttemptOutcome::kPartial;
    const bool in_a_row = state.streak >= context.thresholds.non_finite_loss_critical;
    const char* what = std::isnan(value) ? "NaN" : "Inf";
    Draft draft;
    draft.rule = name();
    draft.subject = subject;
    // An evaluation writes no weights: it warns, however long it lasts.
    draft.severity = training && (!guarded || applied || in_a_row) ? Severity::kCritical : Severity::kWarning;
    draft.first_attempt = state.first_attempt;
    draft.first_step = state.first_step;
    draft.attempt = attempt.attempt();
    draft.step = attempt.step();
    if (ranks.size() < losses) draft.ranks = ranks;
    if (!training) {
      draft.summary = fmt::format("the loss of the evaluation is {} at step {}", what, attempt.step());
    } else if (state.streak > 1) {
      draft.summary = fmt::format("the loss is {} for {} attempts in a row", what, state.streak);
    } else if (applied) {
      draft.summary = fmt::format("the loss is {} at step {} and the step was {}", what, attempt.step(),
                                  guarded ? "applied" : "applied without a scaler");
    } else {
      draft.summary = fmt::format("the loss is {} at step {}", what, attempt.step());
    }
    draft.evidence = {{"loss", value, "", {}},
                      {"consecutive", static_cast<double>(state.streak), "attempts",
                       static_cast<double>(context.thresholds.non_finite_loss_critical)},
                      {"attempts", static_cast<double>(state.attempts), "attempts", {}}};
    if (context.sink.find(name(), subject) == nullptr) draft.blame = attempt.blame;
    context.sink.raise(std::move(draft));
  }

  Episodes episodes_;
  State training_;
  State evaluation_;
};

}  // namespace

std::unique_ptr<Rule> make_non_finite_loss() {
  return std::make_unique<NonFiniteLoss>();
}

}  // namespace scalewatch::domain
