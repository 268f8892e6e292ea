// A trainer of one rank: a small network whose numbers a scenario dictates, and a loss scaler that does what its kind does.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "scalewatch/scalewatch.hpp"
#include "tests/integration/scenarios/scenarios.h"

namespace scalewatch::scenarios {

// fp16 nearest to x, to even on a tie.
std::uint16_t to_half(double x);

// The arithmetic of a dynamic scale, with the numbers that a kind of scaler takes.
struct LossScale {
  double scale = 0x1p16;
  std::int64_t interval = 2000;
  double floor = 0;
  double ceiling = std::numeric_limits<double>::infinity();
  std::int32_t hysteresis = 1;  // overflows that are left until the scale falls
  std::int64_t tracker = 0;
  void update(bool found_inf);
};

struct Setup {
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
  std::string framework = "pytorch";
  scalewatch_dtype compute = SCALEWATCH_FP16;
  std::string policy = "pytorch";  // "none": nothing keeps a step from the weights
  std::vector<std::pair<std::string, double>> parameters = {
      {"init_scale", 0x1p16}, {"growth_factor", 2}, {"backoff_factor", 0.5}, {"growth_interval", 2000}};  // of the policy
  LossScale scale = {};
  OptimizerOptions optimizer = {};
  std::vector<std::string> layers = {"layers.0", "layers.1", "layers.2", "head"};  // in forward order
  scalewatch_dtype gradients = SCALEWATCH_FP32;                                    // as stored
  std::vector<std::string> fp16_layers = {};                                       // whose weights are fp16
};

// What one attempt was like.
struct Step {
  std::int64_t step = 0;
  double loss = 1;
  std::optional<double> lr = {};
  double activation = 1;                      // size of the elements
  double gradient = 1e-3;                     // size of the elements, unscaled
  std::optional<double> clip = {};            // the norm that scaled gradients are clipped to
  std::optional<std::size_t> forward = {};    // layer whose output has one element too large for fp16; what follows is NaN
  std::optional<std::size_t> nan_layer = {};  // layer whose output is NaN; what follows as well
  std::optional<std::size_t> backward = {};   // layer in whose gradient Inf comes up first; below it all is NaN
  bool bad_input = false;
  bool no_gradients = false;  // nothing reached the parameters
  std::string raised = {};    // misuse that the framework refused: no step, no update
  std::string detail = {};    // of the misuse
};

class Trainer {
 public:
  static constexpr std::size_t kElements = 256;  // of each tensor

  Trainer(const Job& job, const Setup& setup);

  void attempt(const Step& step);
  // Says goodbye once everything is durable.
  void finish();

  LossScale& scale() { return setup_.scale; }
  Monitor& monitor() { return monitor_; }
  // It began from a checkpoint that holds NaN.
  void poison_weights() { poisoned_ = true; }

 private:
  struct Layer {
    std::uint32_t output, gradient, weight;
    bool fp16;
  };
  void forward(const Step& step);
  bool backward(const Step& step, bool bad_loss);  // true when a gradient is not finite
  void weights(bool bad);
  void observe(std::uint32_t tensor, const std::vector<float>& values, double scale, bool half);
  std::vector<float> normal(double size);

  Setup setup_;
  Monitor monitor_;
  std::uint32_t scaler_ = 0;
  std::vector<Layer> layers_;
  std::mt19937 random_{7};
  bool poisoned_ = false;
  std::uint64_t attempts_ = 0;
};

// Throws unless the client took it.
void check(bool taken);
// Waits for the server now and then, so that no queue ever fills and no rank gets far ahead of the others.
void pace(Monitor& monitor, std::uint64_t attempt, std::uint32_t world_size = 1);
void finish(Monitor& monitor);
Monitor open_monitor(const Job& job, const Setup& setup);

}  // namespace scalewatch::scenarios
