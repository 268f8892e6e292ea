// What never changes about a tensor, from its table and the rank's Hello, in a form that costs nothing to look at.
//
// Names: an optimizer's state tensor of the parameter P is called P.SLOT and is on the same shard, e.g.
// "layers.3.weight.exp_avg_sq" of "layers.3.weight"; P's gradient has P's own name. The slot exp_avg_sq is Adam's second
// moment.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "server/domain/observation.h"

namespace scalewatch::domain {

struct TensorFacts {
  static constexpr std::uint32_t kNoPartner = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::uint8_t kAnyOptimizer = 64;  // not known which, or beyond the first 64

  std::uint64_t numel = 0;
  std::uint32_t partner = kNoPartner;  // of a second moment: id of its gradient
  Role role = Role::kUnspecified;
  DType dtype = DType::kUnspecified;
  std::uint8_t group = 0;                  // index of its optimizer's scaler, or the number of scalers
  std::uint8_t optimizer = kAnyOptimizer;  // index in the rank's Hello
  bool stepped : 1 = false;                // some optimizer steps it, as far as the table says
  bool static_scale : 1 = false;           // its scaler never moves the scale, or there is none
  bool no_master : 1 = false;              // narrow, and its optimizer is known to keep no wider copy
  bool replicated : 1 = false;
};
static_assert(sizeof(TensorFacts) == 24);

// The Hello's part that facts are made of.
struct RankFacts {
  static constexpr std::uint32_t kMaxGroups = 64;

  DType compute_dtype = DType::kUnspecified;
  std::vector<ScalerInfo> scalers;  // the first kMaxGroups
  std::vector<OptimizerInfo> optimizers;

  [[nodiscard]] std::uint8_t no_group() const { return static_cast<std::uint8_t>(scalers.size()); }
};

std::vector<TensorFacts> describe(const TensorTable& table, const RankFacts& rank);

// Are fp16, bf16 and the fp8 formats.
[[nodiscard]] inline bool is_narrow(DType dtype) {
  return dtype == DType::kFp16 || dtype == DType::kBf16 || dtype == DType::kE4m3fn || dtype == DType::kE5m2;
}
[[nodiscard]] inline bool is_fp8(DType dtype) {
  return dtype == DType::kE4m3fn || dtype == DType::kE5m2;
}

}  // namespace scalewatch::domain
