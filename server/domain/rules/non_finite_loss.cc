// The loss is NaN or Inf, with or without non-finite gradients.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "server/domain/rules/rules.h"

namespace scalewatch::domain {
namespace {

constexpr auto kEvaluation = "evaluation";
constexpr auto kFiltered = "filtered";

class NonFiniteLoss : public PersistedRule<NonFiniteLoss> {
 public:
  [[nodiscard]] std::string_view name() const override { return "NonFiniteLoss"; }

  void on_attempt(const ClosedAttempt& attempt, const RuleContext& context) override {
    look(attempt, true, training_, context);
    look(attempt, false, evaluation_, context);
    if (context.run.from_log) look_for_filtered(attempt, context);
  }

  void on_end(const RuleContext& context) override {
    if (context.run.from_log && !filtered_.usual && filtered_.zeros >= kAtEnd) tell_filtered(context);
  }

  template <class A>
  void persist(A& a) {
    a(episodes_, training_, evaluation_, filtered_);
  }

 private:
  static constexpr std::uint32_t kAtEnd = 3;  // records of 0 that a log ends with

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
    if (ranks.empty()) state.streak = 0;
    if (ranks.empty() && episodes_.none()) return;
    const std::string subject = training ? "" : kEvaluation;
    if (ranks.empty()) {
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

  // Some trainers leave a loss that is not finite out of the mean that they print: what is left is exactly 0. A loss that was
  // learnt down to 0 comes there by small values, and one that is 0 at times is meant so.
  void look_for_filtered(const ClosedAttempt& attempt, const RuleContext& context) {
    constexpr std::uint32_t kForGood = 10;  // records of 0 in a row: it does not come back
    constexpr double kFallen = 0.25;        // of the first losses
    constexpr double kLeast = 1.0 / 64;     // a smaller one may be rounded to 0
    for (const RankReport& report : attempt.joined.reports) {
      if (!report.training() || !report.loss || filtered_.usual) continue;
      const double loss = *report.loss;
      if (!std::isfinite(loss)) return;
      if (loss != 0) {
        if (filtered_.zeros >= kForGood) context.sink.resolve(name(), kFiltered);
        filtered_.usual = filtered_.zeros > 0;
        ++filtered_.losses;
        filtered_.first = std::max(filtered_.first, loss);
        filtered_.last = loss;
        return;
      }
      const bool no_gradient = !report.grad_norm || *report.grad_norm == 0 || std::isnan(*report.grad_norm);
      if (filtered_.losses == 0 || !no_gradient || !(filtered_.last > std::max(kLeast, kFallen * filtered_.first))) {
        filtered_.usual = true;
        return;
      }
      if (filtered_.zeros++ == 0) {
        filtered_.first_attempt = attempt.attempt();
        filtered_.first_step = attempt.step();
      }
      filtered_.last_attempt = attempt.attempt();
      filtered_.last_step = attempt.step();
      if (filtered_.zeros >= kForGood) tell_filtered(context);
      return;
    }
  }

  void tell_filtered(const RuleContext& context) const {
    Draft draft;
    draft.rule = name();
    draft.subject = kFiltered;
    draft.severity = Severity::kWarning;
    draft.first_attempt = filtered_.first_attempt;
    draft.first_step = filtered_.first_step;
    draft.attempt = filtered_.last_attempt;
    draft.step = filtered_.last_step;
    draft.summary = fmt::format("the loss is exactly 0 for {} records in a row after {}: the trainer leaves NaN out of it",
                                filtered_.zeros, number_text(filtered_.last));
    draft.evidence = {{"loss", 0, "", {}},
                      {"loss_before", filtered_.last, "", {}},
                      {"consecutive", static_cast<double>(filtered_.zeros), "records", static_cast<double>(kAtEnd)}};
    context.sink.raise(std::move(draft));
  }

  struct Filtered {
    std::uint32_t losses = 0;  // other than 0, before the first that is
    std::uint32_t zeros = 0;   // in a row
    double first = 0;          // largest of those losses
    double last = 0;           // newest of them
    bool usual = false;        // a loss of 0 has another reason
    Attempt first_attempt = 0, last_attempt = 0;
    std::int64_t first_step = 0, last_step = 0;
    template <class A>
    void persist(A& a) {
      a(losses, zeros, first, last, usual, first_attempt, first_step, last_attempt, last_step);
    }
  };

  Episodes episodes_;
  State training_;
  State evaluation_;
  Filtered filtered_;
};

}  // namespace

std::unique_ptr<Rule> make_non_finite_loss() {
  return std::make_unique<NonFiniteLoss>();
}

}  // namespace scalewatch::domain
