// One run's state: the fold of its inputs, with the rules that look at it.
//
// Pure: no I/O, no clock, no threads. The same inputs give the same findings bit for bit, also when the fold is cut by
// save() and load() anywhere. Not thread-safe: one strand owns one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/domain/attempt_counts.h"
#include "server/domain/finding.h"
#include "server/domain/observation.h"
#include "server/domain/thresholds.h"

namespace scalewatch::domain {

// Every rule there is, in the order of events within one input.
std::vector<std::string> rule_names();

// What can be seen of a scaler of the newest segment.
struct ScalerView {
  ScalerInfo info;
  std::optional<double> scale;
  std::optional<double> scale_first;  // in force at the first attempt seen
  std::optional<double> scale_min;    // smallest seen
  std::optional<std::uint64_t> growth_tracker;
  std::uint64_t applied = 0;
  std::uint64_t skipped = 0;
  std::uint64_t growths = 0;
  std::uint64_t consecutive_skips = 0;
  bool calibrating = true;                 // nothing applied yet
  double skip_ratio = 0;                   // of the last <= 200 attempts after calibration
  std::optional<std::int32_t> hysteresis;  // newest that the scaler told of its own
};

struct LossView {
  LossCause cause = LossCause::kNone;
  std::uint64_t reports = 0;    // whole reports that never come
  std::uint64_t first_seq = 0;  // newest range of them; 0 = none
  std::uint64_t last_seq = 0;   // inclusive
  std::uint64_t thinned = 0;    // reports that came without their full statistics
  Attempt first_attempt = 0;    // newest row of them; 0 = none
  Attempt last_attempt = 0;     // inclusive
};

struct RankView {
  Rank rank = 0;
  std::string host;
  std::uint32_t pid = 0;
  std::string gpu_uuid;
  bool left = false;  // said goodbye
  Attempt last_attempt = 0;
  TimeMs last_report = 0;        // 0 = none
  std::vector<LossView> losses;  // by cause
};

struct RunView {
  std::uint32_t segment = 0;  // 0 = none yet
  TimeMs segment_started = 0;
  std::uint32_t world_size = 0;
  std::string framework;
  DType compute_dtype = DType::kUnspecified;
  Attempt attempts = 0;       // closed attempts of the segment
  std::uint64_t applied = 0;  // closed attempts by outcome, over all scalers
  std::uint64_t skipped = 0;
  std::uint64_t partial = 0;
  AttemptCounts counts;  // of closed attempts
  std::int64_t last_step = 0;
  std::optional<double> loss;
  std::optional<double> grad_norm;
  std::vector<ScalerView> scalers;
  std::vector<RankView> ranks;  // by rank
  std::vector<Finding> open;    // worst first, then oldest first
};

class RunState {
 public:
  explicit RunState(Thresholds thresholds = {});
  ~RunState();
  RunState(RunState&&) noexcept;
  RunState& operator=(RunState&&) noexcept;

  // Folds one input in and returns what changed in findings, in a fixed order.
  std::vector<FindingEvent> fold(const Input& input);

  [[nodiscard]] RunView view() const;

  // State as bytes, versioned; load throws std::runtime_error on bytes that save did not make.
  [[nodiscard]] std::string save() const;
  void load(std::string_view bytes);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace scalewatch::domain
