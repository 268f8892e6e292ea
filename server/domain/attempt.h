// One attempt with the reports of all ranks joined: what cross-rank rules and blame look at. Plain values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "server/domain/fields.h"
#include "server/domain/observation.h"

namespace scalewatch::domain {

// What became of an attempt of one scaler over its optimizers.
enum class AttemptOutcome : std::uint8_t { kUnknown = 0, kApplied = 1, kSkipped = 2, kPartial = 3 };

inline bool is_state(Role role) {
  return role == Role::kParameter || role == Role::kBuffer || role == Role::kOptimizerState;
}

struct ScalerReport {
  std::uint32_t track = 0;  // index in RunModel::scalers
  ScalerObservation seen;
  template <class A>
  void persist(A& a) {
    a(track, seen);
  }
};

// One rank's part.
struct RankReport {
  Rank rank = 0;
  std::int64_t step = 0;
  Phase phase = Phase::kUnspecified;
  std::optional<double> loss;
  std::optional<double> lr;
  std::optional<double> grad_norm;
  bool grad_norm_scaled = false;        // taken under the scale
  bool grad_norm_clipped = false;       // taken after clipping
  std::optional<double> gradient_norm;  // of its gradient records, as stored
  double gradient_scale = 1;            // that they were measured under
  bool gradients_zero = false;
  std::vector<MisuseObservation> misuse;
  std::optional<bool> input_non_finite;
  std::uint32_t non_finite_total = 0;
  bool observed_gradients = false;
  bool observed_activations = false;
  bool observed_activation_gradients = false;
  bool observed_parameters = false;
  // Something of it was bad, and its table has gradients, none of them a shard: after a reduction all ranks hold the same.
  bool whole_gradients = false;
  Few<ScalerReport> scalers;
  std::vector<std::pair<Role, std::string>> recovered;
  std::vector<std::uint64_t> unmasked;  // names of AttemptDigest::unmasked, by fnv1a
  std::string falling;
  double octaves_fallen = 0;
  std::optional<double> accuracy;
  bool outcome_counted = false;  // a log's counter says that it was applied
  std::vector<RankDifference> rank_differences;
  std::vector<TensorFaults> tensor_faults;

  [[nodiscard]] bool training() const { return phase == Phase::kUnspecified || phase == Phase::kTrain; }

  template <class A>
  void persist(A& a) {
    a(lr, grad_norm_scaled, grad_norm_clipped, gradient_norm, gradient_scale, gradients_zero, misuse);
    a(rank, step, phase, loss, grad_norm, input_non_finite, non_finite_total, observed_gradients, observed_activations,
      observed_activation_gradients, observed_parameters, whole_gradients, scalers, recovered, falling, octaves_fallen);
    a(accuracy, outcome_counted, rank_differences, tensor_faults, unmasked);
  }
};

// A tensor that was non-finite somewhere, merged over ranks.
struct TensorAt {
  std::string name;
  Role role = Role::kUnspecified;
  std::uint32_t forward_index = 0;
  std::string optimizer;  // that steps it; empty: unknown or none
  bool stepped = true;    // false: the table names optimizers, and none for this tensor
  std::uint64_t nan = 0;
  std::uint64_t pos_inf = 0;
  std::uint64_t neg_inf = 0;
  bool neg_inf_is_new = false;                   // on some rank: no mask
  std::optional<std::uint32_t> first_bad_micro;  // earliest of any rank; absent: not known
  std::vector<Rank> ranks;                       // rising
  // Of an activation: ranks on which it holds what may be a mask and no more, where `ranks` have worse. Rising.
  std::vector<Rank> masked;
  std::vector<Rank> earliest;  // of `ranks`: those with that first_bad_micro
  template <class A>
  void persist(A& a) {
    a(name, role, forward_index, optimizer, stepped, nan, pos_inf, neg_inf, neg_inf_is_new, first_bad_micro, ranks, masked,
      earliest);
  }
};

// The first replica of a parameter's piece seen at the attempt, which others are compared with.
struct ReplicaSeen {
  std::uint64_t hash = 0;
  Rank rank = 0;
  std::uint32_t copies = 1;
  template <class A>
  void persist(A& a) {
    a(hash, rank, copies);
  }
};

struct ReplicaMismatch {
  std::string tensor;
  Rank first = 0;
  Rank other = 0;
  template <class A>
  void persist(A& a) {
    a(tensor, first, other);
  }
};

struct JoinedAttempt {
  static constexpr std::size_t kMaxTensors = 256;
  static constexpr std::size_t kMaxMismatches = 16;

  Attempt attempt = 0;
  std::vector<RankReport> reports;                // as they came; by rank once sorted
  std::vector<Rank> ranks;                        // that reported, rising
  std::vector<TensorAt> non_finite;               // in blame order
  std::map<std::uint64_t, ReplicaSeen> replicas;  // by fingerprint of name and shard
  std::uint32_t replicas_compared = 0;
  std::vector<ReplicaMismatch> mismatches;
  std::vector<Rank> missing;

  // Takes in the digest of a rank that is not in it yet. The caller adds its scalers, as the model numbers them. The report is
  // good until the next is taken in.
  RankReport& join(const AttemptDigest& digest);
  // No report will follow: puts them in the order of ranks, so that nothing depends on who was first.
  void sort();
  // Detail that came late: non-finite tensors, and which roles the rank has looked at.
  void join_detail(const AttemptDigest& digest);
  // As new, but for the memory that it holds.
  void clear();
  [[nodiscard]] std::int64_t step() const { return reports.empty() ? 0 : reports.front().step; }

  template <class A>
  void persist(A& a) {
    a(attempt, reports, ranks, non_finite, replicas, replicas_compared, mismatches, missing);
  }

 private:
  void add_non_finite(const AttemptDigest& digest);
  void make_room();
};

// The order that values flow in: state, then activations forward, then activation gradients and gradients backward.
bool flows_before(Role a_role, std::uint32_t a_index, Role b_role, std::uint32_t b_index);

}  // namespace scalewatch::domain
