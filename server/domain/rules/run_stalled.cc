// Ranks are there, and none has reported for long: they hang in a collective, in the data loader, or in a debugger.
#include <fmt/core.h>

#include "server/domain/rules/rules.h"
#include "server/domain/rules/samples.h"

namespace scalewatch::domain {
namespace {

class RunStalled : public PersistedRule<RunStalled> {
 public:
  [[nodiscard]] std::string_view name() const override { return "RunStalled"; }

  void on_attempt(const ClosedAttempt& /*attempt*/, const RuleContext& context) override {
    const TimeMs now = context.run.now;
    // What a stall takes is no measure of how long this run may be quiet.
    if (context.sink.find(name(), {}) != nullptr) {
      context.sink.resolve(name(), {});
    } else if (attempts_ > 0) {
      const auto gap = static_cast<double>(std::max<TimeMs>(0, now - last_));
      gaps_.push(gap, kGaps);
      longest_ = std::max(longest_, gap);
    }
    ++attempts_;
    last_ = now;
  }

  void on_liveness(const Liveness& liveness, const RuleContext& context) override {
    const Thresholds& t = context.thresholds;
    if (attempts_ < t.stalled_min_attempts || liveness.server_up < t.stalled_server_up_ms) return;
    TimeMs reported = last_;
    bool beats = false;
    for (const Liveness::Seen& seen : liveness.ranks) {
      if (seen.phase == Phase::kEval || seen.phase == Phase::kCheckpoint || seen.phase == Phase::kInit) return;
      if (const RankInfo* rank = context.run.rank(seen.rank)) reported = std::max(reported, rank->last_report);
      beats = beats || liveness.now - seen.last_seen < t.rank_lost_after_ms;
    }
    if (!beats) return;  // EndedWithoutGoodbye's
    // A server knows of no silence before it began to listen.
    const auto quiet = static_cast<double>(std::min(liveness.now - reported, liveness.server_up));
    const double limit =
        std::max({static_cast<double>(t.stalled_after_ms), t.stalled_medians * gaps_.median(), t.stalled_longest * longest_});
    if (quiet < limit) return;
    fire(liveness, quiet, limit, context);
  }

  template <class A>
  void persist(A& a) {
    a(gaps_, longest_, attempts_, last_);
  }

 private:
  static constexpr std::size_t kGaps = 100;
  static constexpr std::size_t kMaxNamed = 8;  // ranks in the evidence

  void fire(const Liveness& liveness, double quiet, double limit, const RuleContext& context) const {
    const RunModel& run = context.run;
    Draft draft;
    draft.rule = name();
    draft.first_attempt = draft.attempt = run.newest;
    draft.first_step = draft.step = run.last_step;
    draft.evidence = {{"quiet", quiet / 1000, "seconds", limit / 1000},
                      {"median_gap", gaps_.median() / 1000, "seconds", {}},
                      {"longest_gap", longest_ / 1000, "seconds", {}}};
    std::size_t behind = 0;
    Attempt least = run.newest;
    for (const Liveness::Seen& seen : liveness.ranks) {
      const RankInfo* rank = run.rank(seen.rank);
      if (rank == nullptr || rank->last_attempt >= run.newest) continue;
      draft.ranks.push_back(seen.rank);
      least = std::min(least, rank->last_attempt);
      if (behind++ < kMaxNamed) {
        draft.evidence.push_back(
            {fmt::format("last_attempt_of_rank_{}", seen.rank), static_cast<double>(rank->last_attempt), "", {}});
      }
    }
    std::sort(draft.ranks.begin(), draft.ranks.end());
    draft.summary = fmt::format("no report for {:.0f} min though the trainer is there; attempt {} was the last", quiet / 60'000,
                                run.newest);
    if (behind > 0) {
      draft.summary +=
          fmt::format(", and {} {} behind, since attempt {}", ranks_text(draft.ranks), behind == 1 ? "is" : "are", least);
    }
    context.sink.raise(std::move(draft));
  }

  Samples gaps_;        // between closed attempts, milliseconds
  double longest_ = 0;  // of all, milliseconds
  std::uint64_t attempts_ = 0;
  TimeMs last_ = 0;
};

}  // namespace

std::unique_ptr<Rule> make_run_stalled() {
  return std::make_unique<RunStalled>();
}

}  // namespace scalewatch::domain
