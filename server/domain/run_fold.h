// The fold behind RunState: the model, its rules, the attempts that are still open, and how inputs move them.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "server/domain/rules/rule.h"
#include "server/domain/scaler_track.h"
#include "server/domain/sink.h"
#include "server/domain/waiting_attempts.h"

namespace scalewatch::domain {

// A blamed attempt with what was known before it, for detail that comes late.
struct RecentAttempt {
  JoinedAttempt joined;
  std::map<TensorKey, PoisonedTensor> poisoned_before;
  Attempt suspect_before = 0;
  template <class A>
  void persist(A& a) {
    a(joined, poisoned_before, suspect_before);
  }
};

class RunFold {
 public:
  explicit RunFold(const Thresholds& thresholds) : thresholds_(thresholds) {}
  // Parts refer to each other.
  RunFold(const RunFold&) = delete;
  RunFold& operator=(const RunFold&) = delete;

  void on(const SegmentOpened& input);
  void on(const RankJoined& input);
  void on(const RankLeft& input);
  void on(const AttemptDigest& input);
  void on(const AttemptClosed& input);
  void on(const Liveness& input);
  void on(const ReportsLost& input);
  void on(const Acknowledged& input);
  void on(const ServerLag& input);
  void on(const RulesChanged& input);

  [[nodiscard]] const RunModel& run() const { return run_; }
  [[nodiscard]] const Thresholds& thresholds() const { return thresholds_; }
  Sink& sink() { return sink_; }
  // Before each input: when it happened.
  void begin(TimeMs now) {
    run_.now = now;
    sink_.begin(now);
  }

  template <class A>
  void persist(A& a) {
    a(run_, sink_, pending_, recent_, end_told_);
    for (const auto& rule : rules_) {
      std::string name(rule->name());
      a(name);
      if (name != rule->name()) throw std::runtime_error("state is of other rules: found " + std::string(name));
      if constexpr (A::kLoading) {
        rule->load(a);
      } else {
        rule->save(a);
      }
    }
  }

 private:
  // Attempts that wait for their closing. The engine lets at most 2,000 wait; a rank that runs away further is not joined.
  static constexpr std::size_t kMaxPending = kMaxAhead;
  // Closed attempts whose blame late detail may still refine.
  static constexpr std::size_t kMaxRecent = 4;

  // Rules that look at every attempt have lists of their own: most look at only one of the two.
  struct AtAttempts {
    Rule* rule = nullptr;
    bool only_tensor_faults = false;
  };
  struct Looking {
    std::vector<Rule*> at_steps;
    std::vector<AtAttempts> at_attempts;
  };
  [[nodiscard]] Looking who_looks() const;
  template <class Call>
  void each_rule(Call call) {
    const RuleContext context{run_, thresholds_, sink_};
    for (const auto& rule : rules_) call(*rule, context);
  }
  void end();

  void ensure_segment(TimeMs now);
  RankInfo& rank_info(Rank rank);
  // All scalers of a rank, whose optimizers are known.
  void map_scalers(RankInfo& rank, const std::vector<ScalerInfo>& scalers);
  void map_scaler(RankInfo& rank, const ScalerInfo& info, std::uint32_t declared);
  // A scaler that a report names and no Hello did is followed by its number.
  std::optional<std::uint32_t> track_of(RankInfo& rank, std::uint32_t index);
  void lead_if_lower(const RankInfo& rank);
  void replace_leader(Rank gone);
  void forget_poison(Rank rank);

  // report: of that rank; null when it came too late to be joined.
  void step(const ScalerReport& scaler, Rank rank, Attempt attempt, std::int64_t number, const RankReport* report);
  // All before it are closed: scalers step whose leaders have reported it.
  void step_first(const JoinedAttempt& joined);
  void close(JoinedAttempt& joined);
  void take_latest(const JoinedAttempt& joined);
  // -Inf in an activation is no mask where a rank that measured it found none, and no applied attempt had it: told at the
  // closing, for a rank that sends its non-finite tensors only does not know what it held before.
  void unmask(JoinedAttempt& joined) const;
  // Takes in what ranks came to know of their activations.
  void learn_unmasked(const JoinedAttempt& joined);
  // An activation that holds -Inf while the step is fine holds it on purpose.
  void learn_masks(const ClosedAttempt& closed);
  // The same from late detail of an attempt that nothing was wrong with.
  void learn_masks(const AttemptDigest& detail);
  // Did this attempt perhaps poison state that nobody looked at?
  void suspect(const JoinedAttempt& joined, AttemptOutcome outcome);
  // Absent: as before.
  std::optional<std::map<TensorKey, PoisonedTensor>> poisoned_after(const JoinedAttempt& joined) const;
  void add_detail(const AttemptDigest& digest);

  Thresholds thresholds_;
  RunModel run_;
  Sink sink_{run_, thresholds_};
  std::vector<std::unique_ptr<Rule>> rules_ = make_rules();
  Looking looking_ = who_looks();
  bool had_tensor_faults_ = true;  // some rank had at the attempt that was closed last, or nobody knows
  WaitingAttempts pending_;
  std::deque<RecentAttempt> recent_;
  bool end_told_ = false;  // rules saw the end of the run, and nobody came back since
};

}  // namespace scalewatch::domain
