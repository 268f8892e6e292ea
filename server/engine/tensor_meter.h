// What one rank's reports say of headroom and underflow, for metrics: looked at now and then, so that ingest pays next to
// nothing for it.
//
// Not thread-safe: the rank's stream owns one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "server/domain/observation.h"
#include "server/domain/rank_state.h"
#include "server/engine/readings.h"

namespace scalewatch::engine {

class TensorMeter {
 public:
  // Before the first report. `tensors`: how many with the least headroom are kept, at most 255.
  void configure(DType compute_dtype, std::size_t tensors);

  // One report of the incarnation whose digest is folded. Every role is looked at once in kEveryMs at most. Null when nothing
  // was; else all that is known now.
  std::shared_ptr<const RankReading> take(std::span<const domain::RecordColumns> blocks, const domain::AttemptDigest& digest,
                                          std::int64_t steady_ms);

  static constexpr std::int64_t kEveryMs = 250;

 private:
  struct Kept {
    std::uint32_t id = 0;
    float fill = 0;  // largest magnitude over the largest finite value
  };
  void measure(const domain::RecordColumns& block, const domain::TensorTable& table, RoleReading& role);
  void keep(std::uint32_t id, float fill);
  void find_least();

  DType compute_dtype_ = DType::kUnspecified;
  std::size_t most_ = 0;
  double scale_ = 1;  // newest of the first scaler
  std::array<std::int64_t, kRoles> next_ms_{};
  std::array<RoleReading, kRoles> roles_;
  std::vector<Kept> kept_;
  std::size_t least_ = 0;            // the one of kept_ with the most headroom, as of the newest look
  std::vector<std::uint8_t> place_;  // by tensor id: 1 + its place in kept_; 0: not kept
};

}  // namespace scalewatch::engine
