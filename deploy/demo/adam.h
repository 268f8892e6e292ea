// Adam on fp32 master weights, with bias correction. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "deploy/demo/model.h"

namespace scalewatch::demo {

class Adam {
 public:
  static constexpr float kBeta1 = 0.9F;
  static constexpr float kBeta2 = 0.999F;
  static constexpr float kEpsilon = 1e-8F;

  struct State {                    // of one parameter; both fp32
    std::vector<float> gradient;    // unscaled, filled by the loss scaler
    std::vector<float> exp_avg;     // running mean of gradients
    std::vector<float> exp_avg_sq;  // running mean of their squares
  };

  explicit Adam(const std::vector<Model<Half>::Parameter>& parameters);

  std::vector<State>& states() { return states_; }
  // Norm of all unscaled gradients together; NaN or Inf when one of them is.
  [[nodiscard]] double gradient_norm() const;
  // Steps the parameters that it was made for.
  void step(std::vector<Model<Half>::Parameter>& parameters, double lr);
  [[nodiscard]] std::uint64_t steps() const { return steps_; }

 private:
  std::vector<State> states_;
  std::uint64_t steps_ = 0;
};

}  // namespace scalewatch::demo
