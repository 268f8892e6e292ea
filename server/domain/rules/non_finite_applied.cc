// Non-finite gradients went into the weights.
#include <fmt/core.h>

#include <cmath>

#include "server/domain/rules/rules.h"
#include "server/domain/rules/samples.h"

namespace scalewatch::domain {
namespace {

// Whether the optimizer called `name` stepped on this rank. An empty name asks for all of them.
AttemptOutcome outcome_on(const RankReport& report, const std::string& name, const RunModel& run) {
  if (report.scalers.empty()) return report.training() ? AttemptOutcome::kApplied : AttemptOutcome::kUnknown;
  const RankInfo* rank = run.rank(report.rank);
  const bool alone = run.world_size <= 1;
  AttemptOutcome all = AttemptOutcome::kUnknown;
  for (const ScalerReport& scaler : report.scalers) {
    const ScalerTrack& track = run.scalers[scaler.track];
    for (const OptimizerObservation& o : scaler.seen.optimizers) {
      const OptimizerInfo* info = rank != nullptr ? rank->optimizer(o.optimizer) : nullptr;
      if (info == nullptr || name.empty() || info->name != name) continue;
      return static_cast<AttemptOutcome>(decide_outcome(track, scaler.seen, &o, info->fused, alone));
    }
    all = combine(all, decide_attempt(track, scaler.seen, rank, alone));
  }
  return all;
}

class NonFiniteApplied : public PersistedRule<NonFiniteApplied> {
 public:
  [[nodiscard]] std::string_view name() const override { return "NonFiniteApplied"; }

  void on_attempt(const ClosedAttempt& attempt, const RuleContext& context) override {
    std::vector<Rank> ranks;
    double found_inf = 0;
    for (const RankReport& report : attempt.joined.reports) {
      if (applied(report, attempt.joined, context.run, found_inf)) ranks.push_back(report.rank);
    }
    if (shows_in_log(attempt.joined, context.run) && ranks.empty()) ranks.push_back(attempt.joined.reports.front().rank);
    if (ranks.empty()) {
      if (!attempt.training || !episodes_.clean({}, context.thresholds.event_resolve)) return;
      count_ = 0;
      context.sink.resolve(name(), {});
      return;
    }
    episodes_.fired({});
    if (count_++ == 0) {
      first_attempt_ = attempt.attempt();
      first_step_ = attempt.step();
    }
    Draft draft;
    draft.rule = name();
    draft.severity = Severity::kCritical;
    draft.first_attempt = first_attempt_;
    draft.first_step = first_step_;
    draft.attempt = attempt.attempt();
    draft.step = attempt.step();
    draft.ranks = ranks_to_name(ranks, attempt, context);
    draft.summary = fmt::format("non-finite gradients were applied to the weights at step {}{}", first_step_,
                                count_ > 1 ? fmt::format(" and {} more times", count_ - 1) : std::string());
    // The first one is the origin; later ones may only meet poisoned weights.
    const Finding* open = context.sink.find(name(), {});
    const auto& origin = open != nullptr ? open->blame : attempt.blame;
    if (origin) draft.summary += fmt::format("; {} began in {}", kind_text(origin->kind), origin_text(*origin));
    draft.evidence = {{"attempts", static_cast<double>(count_), "attempts", {}}};
    // A norm that was reported tells of no tensor.
    if (const auto tensors = tensors_non_finite(attempt.joined); tensors > 0) {
      draft.evidence.push_back({"tensors_non_finite", static_cast<double>(tensors), "tensors", {}});
    }
    if (found_inf != 0) draft.evidence.push_back({"found_inf_decided", found_inf, "", {}});
    if (open == nullptr) draft.blame = attempt.blame;
    context.sink.raise(std::move(draft));
  }

  template <class A>
  void persist(A& a) {
    a(episodes_, count_, first_attempt_, first_step_, losses_, accuracies_, norm_was_nan_, lr_then_);
  }

 private:
  static bool applied(const RankReport& report, const JoinedAttempt& joined, const RunModel& run, double& found_inf) {
    const RankInfo* rank = run.rank(report.rank);
    const bool alone = run.world_size <= 1;
    for (const ScalerReport& scaler : report.scalers) {
      for (const OptimizerObservation& o : scaler.seen.optimizers) {
        const OptimizerInfo* info = rank != nullptr ? rank->optimizer(o.optimizer) : nullptr;
        const bool fused = info != nullptr && info->fused;
        // Where nothing was decided over ranks, the rank's own count is what it went by.
        const double found = o.found_inf_decided.value_or(o.found_inf_local.value_or(0));
        if (found == 0) continue;
        if (decide_outcome(run.scalers[scaler.track], scaler.seen, &o, fused, alone) != Outcome::kApplied) continue;
        found_inf = found;
        return true;
      }
    }
    for (const TensorAt& tensor : joined.non_finite) {
      if (tensor.role != Role::kGradient || !tensor.stepped) continue;
      if (!std::binary_search(tensor.ranks.begin(), tensor.ranks.end(), report.rank)) continue;
      if (outcome_on(report, tensor.optimizer, run) == AttemptOutcome::kApplied) return true;
    }
    // Without records the norm tells; an infinite one may be the norm's own overflow, NaN can't.
    return !run.from_log && !nothing_tells_the_outcome(report, run) && nan_norm(report) &&
           outcome_on(report, {}, run) == AttemptOutcome::kApplied;
  }

  static bool nan_norm(const RankReport& report) {
    return !report.observed_gradients && report.grad_norm && std::isnan(*report.grad_norm) && report.training();
  }

  // A log that prints neither a scaler nor in which format the run computes: some trainers print a NaN norm on every healthy
  // skip.
  static bool nothing_tells_the_outcome(const RankReport& report, const RunModel& run) {
    return report.scalers.empty() && run.scalers.empty() && run.compute_dtype == DType::kUnspecified;
  }

  // What such a log shows when the step was applied all the same: a counter that says so, a loss that is gone, now or in the
  // next record, or far up, an accuracy that is far down, or a learning rate that moves on from one NaN norm to the next.
  bool shows_in_log(const JoinedAttempt& joined, const RunModel& run) {
    if (joined.reports.empty()) return false;
    const RankReport& report = joined.reports.front();
    if (!run.from_log && !nothing_tells_the_outcome(report, run)) return false;
    if (!report.loss && !report.grad_norm) return false;  // no record
    const bool skipped = outcome_on(report, {}, run) == AttemptOutcome::kSkipped;
    const bool bad = !skipped && (nan_norm(report) || (run.from_log && infinite_norm(report)));
    const bool gone = !skipped && report.loss && (!std::isfinite(*report.loss) || *report.loss == 0);
    bool shows = (gone && (bad || norm_was_nan_)) || (bad && report.outcome_counted);
    if (bad && !shows) {
      const double loss = losses_.median();
      const double accuracy = accuracies_.median();
      const bool moved = norm_was_nan_ && report.lr && lr_then_ && *report.lr != *lr_then_;
      const bool up = report.loss && loss > 0 && *report.loss >= kLossUp * loss;
      const bool down = report.accuracy && accuracy > 0 && *report.accuracy <= kAccuracyDown * accuracy;
      shows = moved || up || down;
    }
    norm_was_nan_ = bad;
    lr_then_ = report.lr;
    if (report.loss && std::isfinite(*report.loss)) losses_.push(*report.loss, kLosses);
    if (report.accuracy && std::isfinite(*report.accuracy)) accuracies_.push(*report.accuracy, kLosses);
    return shows;
  }

  static bool infinite_norm(const RankReport& report) {
    return !report.observed_gradients && report.grad_norm && std::isinf(*report.grad_norm) && report.training();
  }

  static constexpr double kLossUp = 1.5;
  static constexpr double kAccuracyDown = 0.5;
  static constexpr std::size_t kLosses = 200;

  Samples losses_;  // of a log that tells no outcome
  Samples accuracies_;
  bool norm_was_nan_ = false;
  std::optional<double> lr_then_;
  Episodes episodes_;
  std::uint64_t count_ = 0;
  Attempt first_attempt_ = 0;
  std::int64_t first_step_ = 0;
};

}  // namespace

std::unique_ptr<Rule> make_non_finite_applied() {
  return std::make_unique<NonFiniteApplied>();
}

}  // namespace scalewatch::domain
