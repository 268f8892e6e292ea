// The example of loss_scaler.hpp, line for line, as a C++17 program: least squares by gradient descent, with one bad gradient.
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>

#include "scalewatch/loss_scaler.hpp"

int main() {
  scalewatch::MonitorOptions options;
  options.run = "loss scaler example";
  options.server = "127.0.0.1:1";  // nobody is there: that costs the trainer nothing
  scalewatch::Monitor monitor(options);

  constexpr std::int64_t steps = 100;
  constexpr std::int64_t bad_step = 50;
  std::array<float, 4> weight{};
  std::array<float, 1> bias{};
  std::array<float, 4> weight_grad{};
  std::array<float, 1> bias_grad{};
  std::int64_t step_now = 0;
  int applied = 0;
  const auto backward = [&](float upstream) {
    const float error = bias[0] - 3.0F;
    bias_grad[0] = error * upstream;
    for (std::size_t i = 0; i < weight.size(); ++i) weight_grad[i] = (weight[i] - 1.0F) * upstream;
    if (step_now++ == bad_step) weight_grad[2] = std::numeric_limits<float>::infinity();
  };
  const auto clip = [](std::array<float, 4>& gradients, std::array<float, 1>& more) {
    for (float& g : gradients) g = std::fmin(g, 1.0F);
    for (float& g : more) g = std::fmax(g, -1.0F);
  };
  const auto adam_step = [&] {
    ++applied;
    for (std::size_t i = 0; i < weight.size(); ++i) weight[i] -= 0.1F * weight_grad[i];
    bias[0] -= 0.1F * bias_grad[0];
  };

  scalewatch::LossScaler scaler({}, &monitor);  // reports each attempt; without a monitor: scalewatch::LossScaler scaler;
  const auto adam = scaler.add_optimizer({"adam", "Adam"});
  for (std::int64_t step = 0; step < steps; ++step) {
    monitor.begin_attempt(step);
    backward(scaler.scale(1.0F));  // starts from the scaled gradient of the loss; or scale the loss itself
    scaler.unscale(adam, {{weight_grad.data(), weight_grad.size()}, {bias_grad.data(), bias_grad.size()}});
    clip(weight_grad, bias_grad);             // gradients have their true size now
    scaler.step(adam, [&] { adam_step(); });  // does not run when a gradient was NaN or infinite
    scaler.update();                          // once an iteration, after every step()
    monitor.end_attempt();
  }

  const bool learned = std::fabs(weight[2] - 1.0F) < 0.1F && std::fabs(bias[0] - 3.0F) < 0.1F;
  const bool skipped = applied == steps - 1 && scaler.get_scale() == 32768.0F;
  if (!learned || !skipped) std::fprintf(stderr, "applied %d, weight %g, bias %g\n", applied, weight[2], bias[0]);
  return learned && skipped ? 0 : 1;
}
