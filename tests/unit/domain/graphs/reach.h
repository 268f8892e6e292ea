// Where a planted value gets to, from the graph and the rules of arithmetic alone: no value is looked at.
#pragma once

#include <vector>

#include "tests/unit/domain/graphs/fault.h"
#include "tests/unit/domain/graphs/graph.h"

namespace scalewatch::domain::graphs {

// What is certain of a tensor.
enum class Taint : std::uint8_t {
  kClean,
  kMaybe,     // it may hold something non-finite
  kMixed,     // it does, of unknown kind
  kMinusInf,  // it holds -Inf and no other
  kPlusInf,   // it holds Inf
  kNan,       // it holds NaN
};
inline bool certain(Taint taint) {
  return taint > Taint::kMaybe;
}

// Of one attempt, by node. What a fault leaves in weights, buffers and optimizer state is not in here.
struct Reach {
  std::vector<Taint> activation;
  std::vector<Taint> buffer;  // as the forward pass leaves them
  Taint loss = Taint::kClean;
  std::vector<Taint> activation_gradient;
  std::vector<Taint> gradient;  // of weights, after the reduction

  [[nodiscard]] bool skips() const;     // some gradient is non-finite for certain
  [[nodiscard]] bool may_skip() const;  // some gradient may be
};
Reach reach_of(const Graph& graph, const Fault& fault);

}  // namespace scalewatch::domain::graphs
