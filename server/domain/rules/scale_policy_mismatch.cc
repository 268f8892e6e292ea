// The scale is not what the scaler's own policy makes of what happened: one finding for each kind of cause.
#include <fmt/core.h>

#include <cmath>
#include <utility>

#include "server/domain/rules/rules.h"

namespace scalewatch::domain {
namespace {

constexpr std::string_view kReset = "reset at resume";
constexpr std::string_view kDrift = "rank drift";
constexpr std::string_view kSeveral = "several updates at once";
constexpr std::string_view kLost = "lost reports";
constexpr std::string_view kByHand = "set by hand";
constexpr std::string_view kUnexplained = "unexplained";

struct Candidate {
  std::string scaler;
  std::uint32_t rank = 0;
  std::string cause;
  Attempt attempt = 0;
  std::int64_t step = 0;
  double expected = 0;
  double seen = 0;
  bool after = false;  // what was seen is the scale after the update, not before it
  template <class A>
  void persist(A& a) {
    a(scaler, rank, cause, attempt, step, expected, seen, after);
  }
};

// How often `factor` was multiplied in to come from `from` to `to`; 0 when it isn't a whole number of times.
double times(double from, double to, double factor) {
  if (!(from > 0) || !(to > 0) || !(factor > 0) || factor == 1) return 0;
  const double exact = std::log(to / from) / std::log(factor);
  const double whole = std::round(exact);
  return std::abs(exact - whole) < 1e-3 ? whole : 0;
}

class ScalePolicyMismatch : public PersistedRule<ScalePolicyMismatch> {
 public:
  [[nodiscard]] std::string_view name() const override { return "ScalePolicyMismatch"; }

  void on_step(const ScalerStep& step, const RuleContext& context) override {
    const ScalerTrack& scaler = *step.scaler;
    // Another rank speaks for the scaler than before: what differs between the two is no update.
    const auto spoke = told_by_.try_emplace(scaler.info.name, step.rank).first;
    const bool other_rank = std::exchange(spoke->second, step.rank) != step.rank;
    const Policy* const policy = scaler.policy();
    if (!scaler.dynamic || !step.scale_before || policy == nullptr) return;
    auto candidate = resumed(step, context.run);
    if (!candidate && scaler.rates_known) candidate = between(step, *policy, context.run);
    if (!candidate && scaler.rates_known) candidate = within(step, *policy);
    if (!candidate || waiting_.size() >= kMaxWaiting) return;
    if (other_rank && (candidate->cause == kSeveral || candidate->cause == kByHand)) candidate->cause = kDrift;
    candidate->scaler = scaler.info.name;
    candidate->rank = step.rank;
    candidate->attempt = step.attempt;
    candidate->step = step.step;
    waiting_.push_back(std::move(*candidate));
  }

  // Told once all ranks are seen: they may have drifted apart.
  void on_attempt(const ClosedAttempt& attempt, const RuleContext& context) override {
    for (auto& [subject, clean] : open_) ++clean;
    while (!waiting_.empty() && waiting_.front().attempt <= attempt.attempt()) {
      Candidate candidate = std::move(waiting_.front());
      waiting_.pop_front();
      if (candidate.attempt == attempt.attempt() && others_differ(candidate, attempt.joined, context.run)) {
        candidate.cause = kDrift;
      }
      tell(candidate, context);
    }
    for (auto entry = open_.begin(); entry != open_.end();) {
      if (entry->second < context.thresholds.event_resolve) {
        ++entry;
        continue;
      }
      context.sink.resolve(name(), entry->first);
      entry = open_.erase(entry);
    }
  }

  template <class A>
  void persist(A& a) {
    a(waiting_, open_, told_by_);
  }

 private:
  static constexpr std::size_t kMaxWaiting = 64;

  static Candidate make(std::string_view cause, double expected, double seen, bool after = false) {
    Candidate candidate;
    candidate.cause = cause;
    candidate.expected = expected;
    candidate.seen = seen;
    candidate.after = after;
    return candidate;
  }

  // A scaler that begins anew where its run goes on.
  static std::optional<Candidate> resumed(const ScalerStep& step, const RunModel& run) {
    const ScalerTrack& scaler = *step.scaler;
    const double now = *step.scale_before;
    // A growth tracker that goes on has been brought back, and the scale with it.
    constexpr std::uint64_t kAnew = 1;
    if (!same_scale(now, scaler.init) || scaler.growth_tracker.value_or(0) > kAnew) return std::nullopt;
    if (step.previous) {
      const RankInfo* rank = run.rank(step.rank);
      const bool restarted = rank != nullptr && rank->started_after > 0 && rank->started_after >= step.previous_attempt &&
                             scaler.applied + scaler.partial > 0;
      if (!restarted || same_scale(now, *step.previous)) return std::nullopt;
      return make(kReset, *step.previous, now);
    }
    // A run that starts over from its first step is meant to.
    if (!run.segment_before || step.step <= run.segment_before->first_step) return std::nullopt;
    const auto past = run.segment_before->scalers.find(scaler.info.name);
    if (past == run.segment_before->scalers.end() || !past->second.applied || !past->second.scale) return std::nullopt;
    // Checkpoints are older than the last attempt: any scale that was in force about that step will do.
    constexpr std::int64_t kAbout = 2;
    const auto& changes = past->second.changes;
    double at_step = *past->second.scale;
    if (step.step + kAbout >= run.segment_before->last_step && same_scale(now, at_step)) return std::nullopt;
    if (changes.empty() || changes.front().step > step.step + kAbout) return std::nullopt;  // forgotten by now
    for (std::size_t i = 0; i < changes.size(); ++i) {
      const bool begun = changes[i].step <= step.step + kAbout;
      const bool over = i + 1 < changes.size() && changes[i + 1].step < step.step - kAbout;
      if (begun && !over && same_scale(now, changes[i].scale)) return std::nullopt;
      if (changes[i].step <= step.step && step.step <= run.segment_before->last_step) at_step = changes[i].scale;
    }
    return make(kReset, at_step, now);
  }

  // From the end of one attempt to the beginning of the next.
  static std::optional<Candidate> between(const ScalerStep& step, const Policy& policy, const RunModel& run) {
    if (!step.previous || same_scale(*step.scale_before, *step.previous)) return std::nullopt;
    const double before = *step.previous;
    const double now = *step.scale_before;
    const RankInfo* rank = run.rank(step.rank);
    if (rank != nullptr && rank->started_after > 0 && rank->started_after >= step.previous_attempt) return std::nullopt;
    const double falls = times(before, now, policy.backoff_factor());
    if (step.next) return make(falls >= 1 ? kSeveral : kByHand, before, now);
    const auto missing = static_cast<double>(step.attempt - step.previous_attempt - 1);
    if (falls > missing) return make(kSeveral, before, now);
    const double rises = times(before, now, policy.growth_factor());
    const bool explained = (falls >= 1 && falls <= missing) || (rises >= 1 && rises <= missing) || !std::isfinite(now);
    return make(explained || missing > 1 ? kLost : kByHand, before, now);
  }

  // By one attempt's update.
  static std::optional<Candidate> within(const ScalerStep& step, const Policy& policy) {
    if (!step.expected_after || !step.scale_after || same_scale(*step.expected_after, *step.scale_after)) return std::nullopt;
    const double before = *step.scale_before;
    const double expected = *step.expected_after;
    const double after = *step.scale_after;
    if (same_scale(before, after)) return std::nullopt;  // ScaleStuck's
    if (times(before, after, policy.backoff_factor()) >= 2 || times(before, after, policy.growth_factor()) >= 2) {
      return make(kSeveral, expected, after, true);
    }
    return make(step.tracker_same ? kByHand : kUnexplained, expected, after, true);
  }

  static bool others_differ(const Candidate& candidate, const JoinedAttempt& joined, const RunModel& run) {
    for (const RankReport& report : joined.reports) {
      if (report.rank == candidate.rank) continue;
      for (const ScalerReport& scaler : report.scalers) {
        if (run.scalers[scaler.track].info.name != candidate.scaler) continue;
        const auto& seen = candidate.after ? scaler.seen.scale_after : scaler.seen.scale_before;
        if (seen && !same_scale(*seen, candidate.seen)) return true;
      }
    }
    return false;
  }

  void tell(const Candidate& candidate, const RuleContext& context) {
    const std::string subject = candidate.scaler + "/" + candidate.cause;
    open_[subject] = 0;
    const Finding* open = context.sink.find(name(), subject);
    const bool info = candidate.cause == kLost || candidate.cause == kByHand;
    Draft draft;
    draft.rule = name();
    draft.subject = subject;
    draft.severity = info ? Severity::kInfo : Severity::kWarning;
    draft.first_attempt = open != nullptr ? open->first_attempt : candidate.attempt;
    draft.first_step = open != nullptr ? open->first_step : candidate.step;
    draft.attempt = candidate.attempt;
    draft.step = candidate.step;
    if (candidate.cause == kDrift) draft.ranks = {candidate.rank};
    const std::string scaler = scaler_text(candidate.scaler);
    const std::string seen = scale_text(candidate.seen);
    const std::string expected = scale_text(candidate.expected);
    if (candidate.cause == kReset) {
      draft.summary = fmt::format("{} began again from {} at step {}, where the run had {}: its state was not restored", scaler,
                                  seen, candidate.step, expected);
    } else if (candidate.cause == kDrift) {
      draft.summary = fmt::format("the scale of {} is {} on rank {} where its policy makes it {}, and other ranks differ",
                                  scaler, seen, candidate.rank, expected);
    } else if (candidate.cause == kSeveral) {
      draft.summary =
          fmt::format("the scale of {} came to {} within one attempt where one update makes it {}", scaler, seen, expected);
    } else if (candidate.cause == kLost) {
      draft.summary =
          fmt::format("the scale of {} went from {} to {} over attempts that were not reported", scaler, expected, seen);
    } else if (candidate.cause == kByHand) {
      draft.summary = fmt::format("the scale of {} was set to {} by hand; its policy had {}", scaler, seen, expected);
    } else {
      draft.summary =
          fmt::format("the scale of {} is {} at step {} where its policy makes it {}", scaler, seen, candidate.step, expected);
    }
    draft.evidence = {{"scale", candidate.seen, "", candidate.expected}, {"expected_scale", candidate.expected, "", {}}};
    context.sink.raise(std::move(draft));
  }

  std::deque<Candidate> waiting_;              // for the closing of their attempt
  std::map<std::string, std::uint32_t> open_;  // by subject: attempts without more of it
  std::map<std::string, Rank> told_by_;        // by scaler: the rank whose word was taken last
};

}  // namespace

std::unique_ptr<Rule> make_scale_policy_mismatch() {
  return std::make_unique<ScalePolicyMismatch>();
}

}  // namespace scalewatch::domain
