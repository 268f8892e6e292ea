// Numbers of a run that metrics show and its overview doesn't hold. Plain values.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cuda/record/record.h"
#include "server/domain/attempt_counts.h"

namespace scalewatch::engine {

using domain::kRoles;

// A tensor and log2(largest finite value of its format / largest magnitude), of values as they were stored.
struct TensorReading {
  std::string name;
  Role role = Role::kUnspecified;
  double headroom = 0;  // octaves

  bool operator==(const TensorReading&) const = default;
};

// The tensors of one role, when they were last measured.
struct RoleReading {
  std::optional<double> headroom;  // octaves: least of any tensor; absent: never measured
  // Non-zero elements, and those of them that the format holds only as subnormals or not at all. Under a loss scale and
  // without a histogram of exponents, at least so many.
  double non_zero = 0;
  double under = 0;
  std::optional<double> worst_under;  // largest share of one tensor; absent: no tensor of a narrow format was measured

  bool operator==(const RoleReading&) const = default;
};

// What a rank's newest reports say of its tensors.
struct RankReading {
  std::array<RoleReading, kRoles> roles;
  std::vector<TensorReading> tensors;  // with the least headroom, in no order
};

// Of a run's newest segment.
struct RunReadings {
  struct Scaler {
    std::optional<std::int32_t> hysteresis;  // newest told; absent: none
    std::optional<double> floor;             // of its policy; absent: nothing stops the scale
    bool operator==(const Scaler&) const = default;
  };
  std::vector<Scaler> scalers;  // as the overview numbers them
  std::optional<double> gradient_norm;
  std::array<RoleReading, kRoles> roles;
  std::vector<TensorReading> tensors;  // over all ranks, least headroom first
  domain::AttemptCounts counts;

  bool operator==(const RunReadings&) const = default;
};

}  // namespace scalewatch::engine
