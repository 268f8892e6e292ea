// Wrong use of the scaler: what clients saw and told, and what shows in the numbers alone. One finding a kind.
#include <fmt/core.h>

#include <cmath>
#include <deque>
#include <tuple>

#include "server/domain/rules/misuse_kinds.h"
#include "server/domain/rules/norm.h"
#include "server/domain/rules/rules.h"
#include "server/domain/rules/samples.h"

namespace scalewatch::domain {
namespace {

constexpr std::string_view kClip = "clip_before_unscale";
constexpr std::string_view kUpdate = "update_missing";
constexpr std::string_view kScheduler = "scheduler_on_skip";

class Misuse : public PersistedRule<Misuse> {
 public:
  [[nodiscard]] std::string_view name() const override { return "Misuse"; }

  void on_step(const ScalerStep& step, const RuleContext& /*context*/) override {
    if (step.outcome != AttemptOutcome::kApplied) return;
    stands_ = step.tracker_stood ? stands_ + 1 : 0;
    if (ahead_.size() == kMaxAhead) ahead_.pop_front();
    ahead_.push_back({step.attempt, stands_, step.scaler->growth_tracker.value_or(0)});
  }

  void on_attempt(const ClosedAttempt& attempt, const RuleContext& context) override {
    std::map<std::string, Seen> seen;
    for (const RankReport& report : attempt.joined.reports) {
      for (const MisuseObservation& event : report.misuse) {
        Seen& kind = seen[kind_of(event.kind)];
        if (kind.detail.empty()) kind.detail = event.detail;
        kind.raised = kind.raised || event.raised;
        if (kind.ranks.empty() || kind.ranks.back() != report.rank) kind.ranks.push_back(report.rank);
      }
    }
    if (attempt.training) {
      look_for_clipping(attempt, context, seen);
      look_at_tracker(attempt, context, seen);
      look_at_schedule(attempt, context, seen);
    }
    for (auto& [kind, what] : seen) fire(attempt, kind, what, context);
    for (auto entry = kinds_.begin(); entry != kinds_.end();) {
      if (seen.contains(entry->first) || ++entry->second.clean < context.thresholds.event_resolve) {
        ++entry;
        continue;
      }
      context.sink.resolve(name(), entry->first);
      entry = kinds_.erase(entry);
    }
  }

  template <class A>
  void persist(A& a) {
    a(kinds_, norms_, losses_, norms_since_, norms_since_step_, stands_, ahead_, stood_, lr_, lr_before_, skipped_,
      after_calibration_, schedule_attempts_, schedule_skips_);
  }

 private:
  static constexpr std::size_t kMaxKinds = 32;
  static constexpr double kMaxNorm = 1000;      // no trainer clips to more than this
  static constexpr double kTooSmallNorm = 0.1;  // what such a limit would leave of the true norm

  struct Seen {
    std::string detail;
    bool raised = false;
    std::vector<Rank> ranks;
    std::optional<Severity> severity;  // other than usual
    std::vector<Evidence> evidence;
    std::optional<std::pair<Attempt, std::int64_t>> since;  // it began before this attempt
  };
  struct Kind {
    std::uint64_t times = 0;
    std::uint32_t clean = 0;
    Attempt first_attempt = 0;
    std::int64_t first_step = 0;
    template <class A>
    void persist(A& a) {
      a(times, clean, first_attempt, first_step);
    }
  };

  // The growth tracker after so many applied steps that should have moved it.
  struct Stand {
    Attempt attempt = 0;
    std::uint32_t times = 0;
    std::uint64_t tracker = 0;
    template <class A>
    void persist(A& a) {
      a(attempt, times, tracker);
    }
  };

  // A client may name kinds as it likes, but not without end.
  [[nodiscard]] std::string kind_of(const std::string& kind) const {
    if (kinds_.contains(kind) || (kinds_.size() < kMaxKinds && !kind.empty())) return kind;
    return "other";
  }

  // The norm under the scale is the same attempt after attempt, though the loss moves: something holds it there. A clip of
  // unscaled gradients leaves a norm that is a limit times the scale, which is far larger.
  void look_for_clipping(const ClosedAttempt& attempt, const RuleContext& context, std::map<std::string, Seen>& seen) {
    const Thresholds& t = context.thresholds;
    double norm = 0;
    double scale = 0;
    for (const RankReport& report : attempt.joined.reports) {
      const double before = report.scalers.empty() ? 0 : report.scalers.front().seen.scale_before.value_or(0);
      if (report.gradient_norm && report.gradient_scale != 1) {
        norm = *report.gradient_norm;
        scale = report.gradient_scale;
      } else if (report.grad_norm && report.grad_norm_scaled && report.grad_norm_clipped && before > 0) {
        norm = *report.grad_norm;
        scale = before;
      } else {
        continue;
      }
      break;
    }
    const bool plausible = norm > 0 && norm <= kMaxNorm && norm < kTooSmallNorm * scale;
    // Attempts that overflowed, or of which nothing was measured, say nothing.
    if (norm == 0 || !std::isfinite(norm)) return;
    if (!plausible) {
      norms_.clear();
      losses_.clear();
      return;
    }
    if (norms_.size() == 0 || std::abs(norm - norms_.newest()) > t.clipped_spread * norm) {
      norms_since_ = attempt.attempt();
      norms_since_step_ = attempt.step();
    }
    norms_.push(norm, t.clipped_attempts);
    losses_.push(finite_loss(attempt.joined), t.clipped_attempts);  // NaN is no sample
    if (norms_.size() < t.clipped_attempts || spread(norms_) > t.clipped_spread) return;
    if (losses_.size() > 0 && spread(losses_) <= t.clipped_spread) return;  // nothing moves at all
    Seen& kind = seen[std::string(kClip)];
    if (!kind.detail.empty()) return;
    kind.detail = fmt::format(
        "the gradient norm under scale {} was {} in each of {} attempts: gradients are clipped before "
        "they are unscaled, to a true norm of {}",
        scale_text(scale), number_text(norm), t.clipped_attempts, number_text(norm / scale));
    kind.since = {norms_since_, norms_since_step_};
    kind.evidence = {{"scaled_norm", norm, "", {}},
                     {"scale", scale, "", {}},
                     {"true_norm", norm / scale, "", {}},
                     {"spread", spread(norms_), "", t.clipped_spread}};
  }

  void look_at_tracker(const ClosedAttempt& attempt, const RuleContext& context, std::map<std::string, Seen>& seen) {
    for (; !ahead_.empty() && ahead_.front().attempt <= attempt.attempt(); ahead_.pop_front()) stood_ = ahead_.front();
    if (stood_.times < context.thresholds.tracker_stands) return;
    Seen& kind = seen[std::string(kUpdate)];
    if (!kind.detail.empty()) return;
    kind.detail = fmt::format("the growth tracker stayed at {} over {} applied steps: update() is not called", stood_.tracker,
                              stood_.times);
    kind.evidence = {
        {"attempts", static_cast<double>(stood_.times), "attempts", static_cast<double>(context.thresholds.tracker_stands)},
        {"growth_tracker", static_cast<double>(stood_.tracker), "", {}}};
  }

  // Trainers report the learning rate before or after the scheduler's step: it moved over the skip when it differs on both
  // sides of it.
  void look_at_schedule(const ClosedAttempt& attempt, const RuleContext& context, std::map<std::string, Seen>& seen) {
    // A log prints the rate of a record, not that of each attempt.
    if (context.run.from_log) return;
    std::optional<double> lr;
    for (const RankReport& report : attempt.joined.reports) {
      if (!lr && report.training()) lr = report.lr;
    }
    if (!lr) return;
    ++schedule_attempts_;
    const bool moved = skipped_ && lr_ && lr_before_ && *lr != *lr_ && *lr_ != *lr_before_;
    lr_before_ = std::exchange(lr_, lr);
    skipped_ = attempt.outcome == AttemptOutcome::kSkipped;
    const bool counts = std::exchange(after_calibration_, after_calibration_ || attempt.outcome == AttemptOutcome::kApplied);
    const bool told = seen.contains(std::string(kScheduler));
    if (!moved && !told) return;
    // What the search for a scale costs at the start says little of a schedule.
    if (counts) ++schedule_skips_;
    const Thresholds& t = context.thresholds;
    const auto length = static_cast<double>(std::max<std::uint64_t>(schedule_attempts_, t.schedule_attempts));
    const double share = static_cast<double>(schedule_skips_) / length;
    Seen& kind = seen[std::string(kScheduler)];
    kind.severity = share > t.schedule_share ? Severity::kWarning : Severity::kInfo;
    kind.evidence = {{"schedule_lost", share, "", t.schedule_share},
                     {"skipped", static_cast<double>(schedule_skips_), "attempts", {}}};
    if (kind.detail.empty()) {
      kind.detail = fmt::format("the learning rate went on over {} skipped steps ({:.1f}% of the schedule so far)",
                                schedule_skips_, 100 * share);
    }
  }

  static double spread(const Samples& samples) {
    const auto [low, high] = std::minmax_element(samples.values().begin(), samples.values().end());
    const double size = std::max(std::abs(*low), std::abs(*high));
    return size > 0 ? (*high - *low) / size : 0;
  }

  void fire(const ClosedAttempt& attempt, const std::string& subject, const Seen& seen, const RuleContext& context) {
    Kind& kind = kinds_[subject];
    kind.clean = 0;
    if (kind.times++ == 0) {
      std::tie(kind.first_attempt, kind.first_step) = seen.since.value_or(std::pair(attempt.attempt(), attempt.step()));
    }
    Draft draft;
    draft.rule = name();
    draft.subject = subject;
    draft.severity = seen.raised ? Severity::kCritical
                                 : seen.severity.value_or(subject == kScheduler ? Severity::kInfo : Severity::kWarning);
    draft.first_attempt = kind.first_attempt;
    draft.first_step = kind.first_step;
    draft.attempt = attempt.attempt();
    draft.step = attempt.step();
    draft.ranks = ranks_to_name(seen.ranks, attempt, context);
    if (attempt.blame && attempt.blame->where == "input") draft.blame = attempt.blame;
    const std::string what(misuse_text(subject));
    draft.summary = what + (seen.detail.empty() ? "" : (what.empty() ? "" : ": ") + seen.detail);
    if (draft.summary.empty()) draft.summary = "the scaler was used wrongly";
    if (seen.raised) draft.summary += " (the framework refused it)";
    draft.evidence = seen.evidence;
    draft.evidence.push_back({"times", static_cast<double>(kind.times), "attempts", {}});
    context.sink.raise(std::move(draft));
  }

  std::map<std::string, Kind> kinds_;
  Samples norms_;            // under the scale, of the newest attempts
  Samples losses_;           // of the same
  Attempt norms_since_ = 0;  // since when they are alike
  std::int64_t norms_since_step_ = 0;
  std::uint32_t stands_ = 0;         // applied steps in a row, also of attempts that are not closed yet
  std::deque<Stand> ahead_;          // of those, oldest first
  Stand stood_;                      // as of the newest closed attempt
  std::optional<double> lr_;         // of the newest attempt
  std::optional<double> lr_before_;  // of the one before
  bool skipped_ = false;             // the newest attempt was
  bool after_calibration_ = false;
  std::uint64_t schedule_attempts_ = 0;
  std::uint64_t schedule_skips_ = 0;  // over which the learning rate moved
};

}  // namespace

std::unique_ptr<Rule> make_misuse() {
  return std::make_unique<Misuse>();
}

}  // namespace scalewatch::domain
