// What the domain is told: everything that can change a run's state, as plain values.
//
// Time enters only as `now` (server's clock, Unix milliseconds). Attempts are numbered by segment, from 1.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <boost/container/small_vector.hpp>

#include "cuda/record/record.h"
#include "server/domain/tensor_faults.h"

namespace scalewatch::domain {

struct Thresholds;  // thresholds.h

using TimeMs = std::int64_t;
using Rank = std::uint32_t;
using Attempt = std::uint64_t;
// A list that nearly always holds one: it lies within its owner then.
template <class T>
using Few = boost::container::small_vector<T, 1>;

enum class Outcome : std::uint8_t { kUnknown = 0, kApplied = 1, kSkipped = 2 };
// Why a report, or the full statistics in it, never arrived. Numbers equal scalewatch.v1.LossCause.
enum class LossCause : std::uint8_t {
  kNone = 0,
  kBufferFull = 1,
  kQueueFull = 2,
  kTooLarge = 3,
  kRejected = 4,
  kInternal = 5,
  kReconnect = 6,
  kSpoolLimit = 7,
  kDevice = 8,
  kStore = 9,
};

enum class Phase : std::uint8_t { kUnspecified = 0, kTrain = 1, kEval = 2, kCheckpoint = 3, kInit = 4 };

struct TensorInfo {
  std::string name;
  Role role = Role::kUnspecified;
  DType dtype = DType::kUnspecified;
  std::uint64_t numel = 0;
  std::uint32_t forward_index = 0;  // equal for a weight, its gradient and its module's activation
  std::string shard;                // empty: the rank holds the tensor whole
  std::string replica;
  std::string optimizer;

  bool operator==(const TensorInfo&) const = default;
};
// Dense by id. Immutable once shared; a delta makes a new one.
using TensorTable = std::vector<TensorInfo>;

struct ScalerInfo {
  std::string name;
  std::string policy;                        // registered name: "pytorch", "static", "none", ...
  std::map<std::string, double> parameters;  // only those that were sent or printed
};

struct OptimizerInfo {
  std::string name;
  std::string class_name;
  std::uint32_t scaler = 0;
  std::optional<double> lr;
  bool fused = false;
  std::optional<double> eps{};
  std::vector<DType> state_dtypes{};  // of its state tensors; empty: not known
};

struct OptimizerObservation {
  std::uint32_t optimizer = 0;
  std::optional<double> found_inf_local;
  std::optional<double> found_inf_decided;
  Outcome outcome = Outcome::kUnknown;
};

struct ScalerObservation {
  std::uint32_t scaler = 0;
  std::optional<double> scale_before;
  std::optional<double> scale_after;
  std::optional<std::uint64_t> growth_tracker;
  std::optional<std::int32_t> hysteresis;
  Few<OptimizerObservation> optimizers;
  // Of a log: attempts right before this one that it passed over without a word. They were applied.
  std::uint64_t applied_before = 0;
  std::string fatal{};  // of a log: the scaler ended the run at this attempt, in the trainer's words
};

struct MisuseObservation {
  std::string kind;
  std::string detail;
  bool raised = false;
};

// A tensor with NaN or Inf at an attempt.
struct NonFiniteTensor {
  std::uint32_t id = 0;  // in AttemptDigest::table
  std::uint64_t nan = 0;
  std::uint64_t pos_inf = 0;
  std::uint64_t neg_inf = 0;
  std::optional<std::uint32_t> first_bad_micro;
  bool neg_inf_is_new = false;  // an activation that held no -Inf in its first samples: no mask
};

// Bitwise fingerprint of a replicated parameter's record; equal on all ranks that hold the same shard.
struct ReplicaHash {
  std::uint32_t id = 0;  // in AttemptDigest::table
  std::uint64_t hash = 0;
};

// The tensor whose headroom fell fastest over the attempts before this one (rank-local).
struct FallingTensor {
  std::uint32_t id = 0;  // in AttemptDigest::table
  double octaves = 0;    // how far it fell, > 0
};

// A log says that two ranks hold different values of what must be the same.
struct RankDifference {
  std::string what;                                // "scale", "parameters", "loss"
  std::string tensor;                              // of parameters, where it is named
  std::optional<Rank> first, other;                // where they are named
  std::optional<double> first_value, other_value;  // where they are told
  std::string detail;                              // the log's own words
};

// What is left of one rank's report for the run's state once rank-local tensor state is folded (see rank_state.h).
struct AttemptDigest {
  Rank rank = 0;
  Attempt attempt = 0;
  std::int64_t step = 0;
  TimeMs now = 0;  // when the server took it in
  std::shared_ptr<const TensorTable> table;
  Few<ScalerObservation> scalers;
  std::optional<double> loss;
  std::optional<double> lr;
  std::optional<double> grad_norm;
  bool grad_norm_scaled = false;
  bool grad_norm_clipped = false;
  Phase phase = Phase::kUnspecified;
  std::vector<MisuseObservation> misuse;
  bool retrospective = false;  // detail for blame; feeds no window
  std::optional<bool> input_non_finite;
  LossCause statistics_lost = LossCause::kNone;  // measured statistics are not in it, and why; sampling is no loss
  std::vector<NonFiniteTensor> non_finite;       // in blame order, at most RankState::kMaxNonFinite
  std::uint32_t non_finite_total = 0;            // tensors, also those beyond the limit
  bool observed_gradients = false;               // the report held gradient records
  bool observed_activations = false;             // the report held activation records
  bool observed_activation_gradients = false;    // the report held records of activation gradients
  bool observed_parameters = false;              // the report held parameter, buffer or optimizer state records
  // State tensors (parameters, buffers, optimizer state) that were in non_finite of an earlier report and are finite now.
  std::vector<std::uint32_t> recovered;  // at most RankState::kMaxNonFinite; the rest follows in later reports
  // Activations that held no -Inf in their first samples: told once each, at the last of those.
  std::vector<std::uint32_t> unmasked{};
  std::vector<ReplicaHash> replicas;
  std::optional<FallingTensor> falling;
  // All that the rules over tensors hold against this rank now, also where this report says nothing of it. By rule and group.
  std::vector<TensorFaults> tensor_faults;
  // Of all gradient records in the report, as they were stored; absent when there were none or some were non-finite.
  std::optional<double> gradient_norm;
  double gradient_scale = 1;    // that they were measured under; 1 = unscaled
  bool gradients_zero = false;  // there were some, and every element of them was 0
  // ---- from logs only
  std::optional<double> accuracy;                  // of the training batches; any unit
  bool outcome_counted = false;                    // the log's own counter says that what this record tells of was applied
  std::vector<RankDifference> rank_differences{};  // told at this attempt
  std::vector<ScalerInfo> declared{};              // all scalers that have shown so far; empty: as before
};

// A label of a run: "true" when it was read from a log after the fact. It is recorded, and nobody is told of what is found in
// it.
inline constexpr const char* kImportedLabel = "imported";

// ---- inputs, in the order that the engine logs them -----------------------------------------------------------------

// All ranks (re)started: attempts begin at 1 again. Resolves what is open from the segment before.
struct SegmentOpened {
  std::uint32_t segment = 1;
  TimeMs now = 0;
};
// A client start of a rank (first, or a restart within the segment).
struct RankJoined {
  Rank rank = 0;
  std::uint32_t world_size = 1;
  std::string host;
  std::uint32_t pid = 0;
  std::string gpu_uuid;
  std::string framework;
  DType compute_dtype = DType::kUnspecified;
  std::vector<ScalerInfo> scalers;
  std::vector<OptimizerInfo> optimizers;
  TimeMs now = 0;
  // The run is read from a log: attempts are numbered by its progress, outcomes and scales are what was printed, and what was
  // not printed is not known.
  bool from_log = false;
};
// The client closed on purpose.
struct RankLeft {
  Rank rank = 0;
  std::string reason;
  TimeMs now = 0;
};
// No more reports will change this attempt: cross-rank rules and blame may look at it.
struct AttemptClosed {
  Attempt attempt = 0;
  std::vector<Rank> missing;  // live ranks that had not reported
  TimeMs now = 0;
};
// Sent when a rank's silence crosses Thresholds::rank_lost_after_ms, comes back, or is still undecided, now and then while
// nobody reports, and once when all were silent for run_gone_after_ms.
struct Liveness {
  struct Seen {
    Rank rank = 0;
    TimeMs last_seen = 0;
    bool connected = false;
    Phase phase = Phase::kUnspecified;  // newest that it told, by report or heartbeat
  };
  std::vector<Seen> ranks;  // every rank of the segment that has not left
  TimeMs now = 0;
  TimeMs server_up = 0;  // how long the server has been listening, milliseconds; 0 = not known: no timer runs
};
// Reports that will never come.
struct ReportsLost {
  Rank rank = 0;
  std::uint64_t first_seq = 0;
  std::uint64_t last_seq = 0;  // inclusive
  LossCause cause = LossCause::kInternal;
  TimeMs now = 0;
};
// How well the server keeps up. Told when it falls behind or its history refuses, now and then while that lasts, and once when
// it is over.
struct ServerLag {
  TimeMs lag = 0;                // age of the oldest report that is not stored
  bool history_refuses = false;  // the store takes nothing: it tries again
  std::string why;               // in the store's words, when it refuses
  TimeMs now = 0;
};
struct Acknowledged {
  std::string finding_id;
  std::string who;
  std::string comment;
  TimeMs now = 0;
};
// From here on other settings of the rules hold: of the run's, or of the windows of one rank's own tensors (RankState), which
// take them with a report of their own. What a rule that is off now had found resolves.
struct RulesChanged {
  std::shared_ptr<const Thresholds> rules;  // never null
  std::optional<Rank> rank;                 // absent: the run's
  TimeMs now = 0;
};

using Input = std::variant<SegmentOpened, RankJoined, RankLeft, AttemptDigest, AttemptClosed, Liveness, ReportsLost,
                           Acknowledged, ServerLag, RulesChanged>;

}  // namespace scalewatch::domain
