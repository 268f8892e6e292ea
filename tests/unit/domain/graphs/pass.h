// Forward and backward of one rank's micro-batch in fp16, with faults planted in the values as they are computed.
#pragma once

#include <vector>

#include "tests/unit/domain/graphs/fault.h"
#include "tests/unit/domain/graphs/graph.h"

namespace scalewatch::domain::graphs {

// What a rank holds of the network; by node, empty where the node has none.
struct Weights {
  std::vector<Values> weight;               // kWidth rows of kWidth, as the passes read it
  std::vector<std::vector<float>> running;  // of kCentre, kWidth
};

struct Pass {
  std::vector<Values> out;       // by node
  std::vector<Values> gradient;  // of `out`, under the scale
  std::vector<Values> weight_gradient;
  double loss = 0;
  bool input_non_finite = false;
};

// `faults`: those of this rank and micro-batch. `weights.running` moves. `scale`: what the loss is multiplied by.
Pass run_pass(const Graph& graph, Weights& weights, Values input, Values labels, double scale,
              const std::vector<Fault>& faults);

// Masked positions of a row; the same at every attempt.
bool masked(std::size_t column);

}  // namespace scalewatch::domain::graphs
