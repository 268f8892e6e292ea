// Rank-local tensor state: folds the records of one rank's reports, on its stream, and leaves a digest for the run's state.
//
// Not thread-safe: one stream owns one. Deterministic: the same reports give the same digests, also from a snapshot.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/domain/observation.h"
#include "server/domain/tensor_watch.h"

namespace scalewatch::domain {

struct SparseCount {
  std::uint32_t index = 0;  // position in the block
  std::uint64_t count = 0;
};

// Histogram of floor(log2 |x|) of a record's finite non-zero elements, as stored.
struct ExponentColumn {
  std::uint32_t index = 0;          // position in the block
  std::int32_t first_exponent = 0;  // of counts[0]
  std::span<const std::uint64_t> counts;
};

// One block of records as columns; spans point into memory that outlives the call. Columns marked * may be empty = all zero
// (numel: = the table's numel × micro_batches). The ingest has checked lengths, ids and indexes.
struct RecordColumns {
  Role role = Role::kUnspecified;
  double measured_under_scale = 1;
  DType target = DType::kUnspecified;
  std::uint32_t first_id = 0;
  std::uint32_t count = 0;
  std::span<const std::uint32_t> ids;  // empty: first_id, first_id + 1, ...
  std::uint32_t micro_batches = 1;
  std::span<const std::uint64_t> numel;  // *
  std::span<const float> min;
  std::span<const float> max;
  std::span<const float> absmin_nonzero;
  std::span<const double> sum;
  std::span<const double> sum_sq;
  std::span<const std::uint64_t> zero;       // *
  std::span<const std::uint64_t> subnormal;  // *
  std::span<const std::uint64_t> flushed;    // *
  std::vector<SparseCount> nan;
  std::vector<SparseCount> pos_inf;
  std::vector<SparseCount> neg_inf;
  std::vector<SparseCount> over;
  std::vector<SparseCount> first_bad_micro;  // count = micro-batch index
  std::vector<ExponentColumn> exponents;     // on a cadence; indexes rise
};

class RankState {
 public:
  static constexpr std::size_t kMaxNonFinite = 64;

  // Before the first report: what the rank's Hello says, and the numbers that its windows go by.
  void configure(const RankJoined& rank, const Thresholds& thresholds);
  // Between reports: other numbers from the next one on. Windows go on from where they are.
  void change_rules(const Thresholds& thresholds) { watch_.change_rules(thresholds); }

  // Fills digest.non_finite, non_finite_total, observed_*, recovered, replicas, falling and gradient* from the records of one
  // report whose other digest fields are set (digest.table included). A retrospective report changes no state.
  void fold(std::span<const RecordColumns> blocks, AttemptDigest& digest);

  // State as bytes; load throws std::runtime_error on bytes that save did not make.
  [[nodiscard]] std::string save() const;
  void load(std::string_view bytes);

 private:
  // Indexed by tensor id; at most 128 bytes a tensor.
  struct TensorState {
    float headroom = 0;       // newest, octaves
    float headroom_slow = 0;  // slow average that the newest is held against
    std::uint32_t samples = 0;
    bool told_non_finite = false;  // a state tensor that a digest listed as non-finite and that was not finite since
  };
  std::vector<TensorState> tensors_;
  mutable TensorWatch watch_;  // an archive reads and writes with one function

 public:
  static constexpr std::size_t kBytesPerTensor = sizeof(TensorState) + TensorWatch::bytes_per_tensor();
  static_assert(kBytesPerTensor <= 128);
};

}  // namespace scalewatch::domain
