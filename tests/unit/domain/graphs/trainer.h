// Trains a graph on several ranks: data parallel with an all-reduce, or with sharded state; a loss scaler; every tensor
// measured by the CPU kernel as a client would.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "cuda/record/record.h"
#include "server/domain/policy.h"
#include "tests/unit/domain/graphs/pass.h"

namespace scalewatch::domain::graphs {

struct Setup {
  std::uint32_t ranks = 1;
  std::uint32_t micros = 1;
  bool sharded = false;     // each rank owns a part of every weight, its gradient and its optimizer state
  bool pre_divide = false;  // gradients are divided by the ranks before they are added up
  bool scaler = true;
  double init_scale = 16;
  float learning_rate = 0.002F;
};

struct Measured {
  Record record;
  std::optional<std::uint32_t> first_bad_micro;
};
using TensorAtNode = std::pair<Role, std::size_t>;

// What one rank went through in an attempt.
struct RankStep {
  std::map<TensorAtNode, Measured> tensors;
  double loss = 0;
  bool input_non_finite = false;
  bool bad_before = false;  // its gradients before the reduction
  bool bad_after = false;   // what it holds of them after
};
struct Step {
  std::vector<RankStep> ranks;
  double scale_before = 1;
  double scale_after = 1;
  bool found_inf = false;
  bool applied = true;

  [[nodiscard]] bool finite() const;  // but for masks
};

class Trainer {
 public:
  Trainer(const Graph& graph, const Setup& setup, std::uint64_t seed);
  Step step(const std::vector<Fault>& faults);
  // Multiplies what a linear node's weights put out, from now on.
  void scale_weight(std::size_t node, float factor);

 private:
  struct Replica {
    Weights weights;
    std::vector<std::vector<float>> master;
    std::vector<std::vector<float>> momentum;
    std::vector<Values> gradient;  // summed over micro-batches, then over ranks
    std::vector<std::optional<std::uint32_t>> bad_micro;
  };
  using Range = std::pair<std::size_t, std::size_t>;
  // The elements of a weight that the rank keeps.
  [[nodiscard]] Range owned(Rank rank) const;
  void gather();
  void run_micros(Rank rank, const std::vector<Fault>& faults, RankStep& out);
  void reduce(const std::vector<Fault>& faults, Step& step);
  void update(Rank rank, double scale);
  void write_faults(Rank rank, const std::vector<Fault>& faults);
  void measure_state(Rank rank, RankStep& out);

  const Graph& graph_;
  Setup setup_;
  Random random_;
  std::unique_ptr<Policy> policy_;
  std::vector<Replica> ranks_;
};

}  // namespace scalewatch::domain::graphs
