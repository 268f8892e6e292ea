// What is known of a run's newest segment: ranks, scalers, poisoned tensors, recent blames. Plain values that rules, blame
// and advice read; RunState alone changes them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/domain/attempt.h"
#include "server/domain/attempt_counts.h"
#include "server/domain/fields.h"
#include "server/domain/policy.h"
#include "server/domain/thresholds.h"

namespace scalewatch::domain {

// Of a run's state as bytes: since these versions it has the counts of attempts, and knows who was replaced.
constexpr std::uint32_t kCountsVersion = 8;
constexpr std::uint32_t kReplacedVersion = 9;

// What one rank lost for one cause.
struct LossTally {
  std::uint64_t reports = 0;    // whole reports that never come
  std::uint64_t first_seq = 0;  // newest range of them; 0 = none
  std::uint64_t last_seq = 0;   // inclusive
  std::uint64_t thinned = 0;    // reports that came without their full statistics
  Attempt first_attempt = 0;    // newest row of them; 0 = none
  Attempt last_attempt = 0;     // inclusive

  void add_reports(std::uint64_t first, std::uint64_t last);
  void add_thinned(Attempt attempt);
  template <class A>
  void persist(A& a) {
    a(reports, first_seq, last_seq, thinned, first_attempt, last_attempt);
  }
};

struct RankInfo {
  Rank rank = 0;
  std::string host;
  std::uint32_t pid = 0;
  std::string gpu_uuid;
  std::vector<std::uint32_t> scaler_tracks;  // by the rank's scaler index: index in RunModel::scalers
  std::vector<OptimizerInfo> optimizers;
  bool left = false;
  bool lost = false;
  Attempt last_attempt = 0;
  TimeMs last_report = 0;
  Attempt started_after = 0;  // newest attempt of the run when its process started
  std::map<LossCause, LossTally> losses;
  std::vector<TensorFaults> tensor_faults;  // as of the newest closed attempt that it reported

  [[nodiscard]] bool live() const { return !left && !lost; }
  [[nodiscard]] const OptimizerInfo* optimizer(std::uint32_t index) const {
    return index < optimizers.size() ? &optimizers[index] : nullptr;
  }
  template <class A>
  void persist(A& a) {
    a(rank, host, pid, gpu_uuid, scaler_tracks, optimizers, left, lost, last_attempt, last_report, started_after, losses);
    a(tensor_faults);
  }
};

// One optimizer of a scaler; a scaler whose reports name none has one without a name.
struct OptimizerTrack {
  std::uint32_t index = 0;
  std::string name;
  // The scale is still searched for: nothing was applied yet, and nothing can have been before the first attempt seen.
  bool calibrating = true;
  std::uint64_t applied = 0;
  std::uint64_t skipped = 0;
  std::uint64_t consecutive_skips = 0;
  Attempt streak_first_attempt = 0;  // of the streak of skips, newest or running
  std::int64_t streak_first_step = 0;
  Attempt first_attempt = 0;  // seen at all
  std::int64_t first_step = 0;
  // Of a log that begins within the search: attempts before the first one seen, by the log's own numbers. All were skipped.
  std::uint64_t unseen_skips = 0;
  template <class A>
  void persist(A& a) {
    a(index, name, calibrating, applied, skipped, consecutive_skips, streak_first_attempt, streak_first_step, first_attempt,
      first_step, unseen_skips);
  }
};

// An attempt after calibration.
struct WindowItem {
  Attempt attempt = 0;
  std::int64_t step = 0;
  bool skipped = false;
  bool grew = false;
  template <class A>
  void persist(A& a) {
    a(attempt, step, skipped, grew);
  }
};

// The scale that was in force from a step on.
struct ScaleChange {
  std::int64_t step = 0;
  double scale = 0;
  template <class A>
  void persist(A& a) {
    a(step, scale);
  }
};

// A scaler by name, over all ranks that have one of that name. Follows its leader's observations.
struct ScalerTrack {
  ScalerInfo info;
  // From the policy, or from its parameters where it is unknown.
  std::int32_t hysteresis = 1;
  double init = 0;   // 0 = not known yet
  double floor = 0;  // 0 = none
  bool dynamic = true;
  bool guards = true;

  bool from_log = false;  // see RankJoined

  std::optional<std::int32_t> told_hysteresis;  // newest that the scaler told of its own

  std::uint32_t declared_optimizers = 0;  // most that a rank said it has for this scaler

  std::optional<Rank> leader;  // lowest live rank that has this scaler
  Attempt last_attempt = 0;    // no attempt is taken twice
  std::optional<double> scale;
  std::optional<double> scale_first;
  std::optional<double> scale_min;
  std::optional<std::uint64_t> growth_tracker;
  std::uint64_t applied = 0;
  std::uint64_t skipped = 0;
  std::uint64_t partial = 0;
  std::uint64_t growths = 0;
  std::uint64_t consecutive_skips = 0;
  std::vector<OptimizerTrack> optimizers;
  std::deque<WindowItem> window;  // newest last, at most Thresholds::frequent_skips_window
  std::uint32_t window_skipped = 0;
  std::uint32_t window_grew = 0;
  std::uint64_t unmoved_skips = 0;  // in a row that left the scale above the floor as it was
  double largest_fall = 0;          // of the scale at one attempt of the newest streak of skips, octaves
  std::int32_t credit = 0;          // skips that growth still accounts for
  std::deque<Attempt> unexplained;  // skipped after calibration beyond that credit; the newest kMaxUnexplained
  static constexpr std::size_t kMaxUnexplained = 64;

  // The policy that `info` names, made once (null: unknown). Whoever uses it restores the state that it needs first; between
  // uses it holds nothing that matters.
  mutable std::shared_ptr<Policy> machine;
  [[nodiscard]] Policy* policy() const;

  // What the policy would have done, on from what was seen of the scaler.
  PolicyState replay;
  bool replay_started = false;
  bool rates_known = false;         // parameters beyond the initial scale were sent or printed: the replay is no guess
  bool clean_known = false;         // replay.clean is the scaler's own
  bool hysteresis_known = false;    // replay.hysteresis is the scaler's own
  std::deque<ScaleChange> changes;  // newest last, at most kMaxChanges
  static constexpr std::size_t kMaxChanges = 64;

  [[nodiscard]] bool skip_unexplained(Attempt attempt) const {
    return std::find(unexplained.begin(), unexplained.end(), attempt) != unexplained.end();
  }
  [[nodiscard]] bool calibrating() const { return applied + partial == 0; }
  [[nodiscard]] double skip_ratio() const {
    return window.empty() ? 0 : static_cast<double>(window_skipped) / static_cast<double>(window.size());
  }
  template <class A>
  void persist(A& a) {
    a(info, hysteresis, init, floor, dynamic, guards, from_log, declared_optimizers, leader, last_attempt, scale, scale_first,
      scale_min, growth_tracker, applied, skipped, partial, growths, consecutive_skips, optimizers, window, window_skipped,
      window_grew, unmoved_skips, largest_fall, credit, unexplained);
    a(replay, replay_started, rates_known, clean_known, hysteresis_known, changes);
    if (a.version() >= kCountsVersion) a(told_hysteresis);
  }
};

// A state tensor that is non-finite on some ranks.
struct PoisonedTensor {
  std::uint32_t forward_index = 0;
  Attempt since = 0;
  std::int64_t since_step = 0;
  std::vector<Rank> ranks;  // rising
  template <class A>
  void persist(A& a) {
    a(forward_index, since, since_step, ranks);
  }
};
using TensorKey = std::pair<Role, std::string>;

struct PastBlame {
  Attempt attempt = 0;
  std::int64_t step = 0;
  Blame blame;
  std::optional<Rank> lone_rank;  // the one rank that was non-finite before the reduction
  template <class A>
  void persist(A& a) {
    a(attempt, step, blame, lone_rank);
  }
};

// What is remembered of the segment before, for what a resume should have brought back.
struct PastSegment {
  struct Scaler {
    bool applied = false;  // something was
    std::optional<double> scale;
    std::deque<ScaleChange> changes;
    template <class A>
    void persist(A& a) {
      a(applied, scale, changes);
    }
  };
  std::int64_t first_step = 0;
  std::int64_t last_step = 0;
  std::map<std::string, Scaler> scalers;
  template <class A>
  void persist(A& a) {
    a(first_step, last_step, scalers);
  }
};

struct RunModel {
  static constexpr std::size_t kMaxScalers = 64;
  static constexpr std::size_t kMaxOptimizers = 64;
  static constexpr std::size_t kMaxPoisoned = 256;
  static constexpr std::size_t kMaxMasks = 256;
  static constexpr std::size_t kMaxUnmasked = 65536;
  static constexpr std::size_t kBlames = 20;
  static constexpr Attempt kBlameReach = 50;

  std::uint32_t segment = 0;
  TimeMs segment_started = 0;
  std::uint32_t world_size = 0;
  std::string framework;
  DType compute_dtype = DType::kUnspecified;
  bool from_log = false;  // see RankJoined
  std::map<Rank, RankInfo> ranks;
  std::uint64_t present = 0;  // of them, ranks that have not said goodbye
  std::vector<ScalerTrack> scalers;

  Attempt closed = 0;          // attempts up to here are closed
  Attempt newest = 0;          // highest attempt seen
  std::uint64_t attempts = 0;  // closed ones with a report
  std::uint64_t applied = 0;
  std::uint64_t skipped = 0;
  std::uint64_t partial = 0;
  AttemptCounts counts;
  std::uint64_t passed = 0;                // applied attempts that a log only lets one count; in none of the above
  std::optional<std::int64_t> first_step;  // of the segment's first attempt seen
  std::int64_t last_step = 0;
  TimeMs now = 0;                             // when the newest input happened
  TimeMs replaced = 0;                        // when a process last took the place of one that was there; 0 = never
  std::optional<PastSegment> segment_before;  // absent: this is the first, or nothing was reported in the one before
  // First attempt that was applied, or may have been, with non-finite gradients since state tensors were seen finite; 0 = none.
  Attempt suspect_since = 0;
  std::int64_t suspect_since_step = 0;
  std::optional<double> loss;
  std::optional<double> grad_norm;
  std::optional<double> lr;

  std::map<TensorKey, PoisonedTensor> poisoned;  // as of the newest closed attempt
  std::map<TensorKey, std::uint8_t> masks;       // activations that hold -Inf while all is well
  // Activations that some rank measured often enough to know that they hold no mask there: fnv1a of their names, rising.
  std::vector<std::uint64_t> unmasked;
  std::deque<PastBlame> blames;  // of closed attempts, newest last

  [[nodiscard]] const RankInfo* rank(Rank wanted) const {
    const auto found = ranks.find(wanted);
    return found == ranks.end() ? nullptr : &found->second;
  }
  // A process took the place of one that was there, a while ago at most in which the others may be replaced too (clients come
  // back within 30 s). Until then the ranks may be of two jobs under one name, which need not agree on anything.
  [[nodiscard]] bool may_be_two_jobs() const { return replaced != 0 && now - replaced < kTakeOver; }
  static constexpr TimeMs kTakeOver = 35'000;
  [[nodiscard]] bool all_left() const { return !ranks.empty() && present == 0; }
  // The blame that the attempts up to `attempt` give most often, of equals the newest; older ones than kBlameReach attempts
  // tell nothing of what goes wrong now. Null when there is none.
  [[nodiscard]] const PastBlame* usual_blame(Attempt attempt) const;
  // How many of the recent blamed attempts had this rank alone non-finite before the reduction.
  [[nodiscard]] std::uint32_t lone_attempts(Rank rank) const;
  // Newest learning rate: reported, or configured.
  [[nodiscard]] std::optional<double> learning_rate() const;

  template <class A>
  void persist(A& a) {
    a(segment, segment_started, world_size, framework, compute_dtype, ranks, present, scalers, closed, newest, attempts,
      applied, skipped, partial, last_step, suspect_since, suspect_since_step, loss, grad_norm, lr, poisoned, masks, blames);
    a(first_step, now, from_log, segment_before, passed, unmasked);
    if (a.version() >= kCountsVersion) a(counts);
    if (a.version() >= kReplacedVersion) a(replaced);
  }
};

}  // namespace scalewatch::domain
