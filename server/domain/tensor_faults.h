// What the statistics of one rank's tensors say against them: what tensor_watch finds and the rules over tensors join over
// ranks. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cuda/record/record.h"

namespace scalewatch::domain {

// The rules whose windows are kept on each rank. Numbers are persisted.
enum class TensorRule : std::uint8_t {
  kGradientUnderflow = 0,
  kLowHeadroom = 1,
  kRangeTooWide = 2,
  kFp8Saturation = 3,
  kAllZeroGradient = 4,
  kLostUpdates = 5,
  kOptimizerStateUnderflow = 6,
  kDominantGradient = 7,
};
constexpr std::size_t kTensorRules = 8;

struct FaultyTensor {
  std::string name;
  Role role = Role::kUnspecified;
  // How bad, a larger one is worse: the share that is lost (GradientUnderflow, RangeTooWide, OptimizerStateUnderflow), octaves
  // beyond the limit (LowHeadroom, LostUpdates), saturated elements (Fp8Saturation), elements (AllZeroGradient), share of the
  // squared norm (DominantGradient).
  double value = 0;
  template <class A>
  void persist(A& a) {
    a(name, role, value);
  }
};

// Tensors of one rank that a rule holds something against now. A digest has one entry a rule and group of tensors that has
// any; the tensors that one scaler's optimizers step are a group, all others are another.
struct TensorFaults {
  static constexpr std::size_t kMaxWorst = 8;

  TensorRule rule = TensorRule::kGradientUnderflow;
  std::optional<std::uint32_t> scaler;  // index in the rank's Hello; absent: no scaler's tensors
  std::uint32_t tensors = 0;            // at least 1
  std::uint64_t elements = 0;           // of them
  std::uint64_t measured = 0;           // elements of all gradients of the group that ever came; gradient rules only
  bool all_zero = false;                // GradientUnderflow: every gradient of the group is zero
  // GradientUnderflow: the gradient with the least headroom and how much that is, octaves. Empty: none is known.
  std::string limiting;
  double headroom = 0;
  std::uint64_t since = 0;          // attempt at which the oldest of them began
  std::int64_t since_step = 0;      // the trainer's number for it
  std::vector<FaultyTensor> worst;  // worst first, at most kMaxWorst; those that were measured last while it holds
  template <class A>
  void persist(A& a) {
    a(rule, scaler, tensors, elements, measured, all_zero, limiting, headroom, since, since_step, worst);
  }
};

}  // namespace scalewatch::domain
