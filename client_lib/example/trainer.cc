// The smallest trainer that Scalewatch watches: one layer, y = w·x, half a page of loop.
#include <cstdio>
#include <vector>

#include "scalewatch/loss_scaler.hpp"

int main() {
  scalewatch::MonitorOptions options;
  options.run = "example";  // server: $SCALEWATCH_SERVER, else 127.0.0.1:7462
  scalewatch::Monitor monitor(options);

  scalewatch::LossScaler scaler({}, &monitor);
  scalewatch::OptimizerOptions sgd_options;
  sgd_options.name = "sgd";
  sgd_options.class_name = "SGD";
  const auto sgd = scaler.add_optimizer(sgd_options);

  std::vector<float> weight(8, 0.0F);
  std::vector<float> gradient(weight.size());
  scalewatch::TensorOptions gradient_options;
  gradient_options.name = "layer.weight";
  gradient_options.role = SCALEWATCH_GRADIENT;
  gradient_options.numel = gradient.size();
  const auto gradient_id = monitor.add_tensor(gradient_options);

  for (int step = 1; step <= 100; ++step) {
    monitor.begin_attempt(step);
    float loss = 0;
    const float upstream = scaler.scale(1.0F);  // backward starts from the scaled loss
    for (std::size_t i = 0; i < weight.size(); ++i) {
      const float error = weight[i] - static_cast<float>(i);
      loss += error * error / 2;
      gradient[i] = error * upstream;
    }
    monitor.set_loss(loss);
    monitor.observe(gradient_id, gradient.data(), gradient.size(), scaler.get_scale());
    scaler.step(sgd, {{gradient.data(), gradient.size()}}, [&] {
      for (std::size_t i = 0; i < weight.size(); ++i) weight[i] -= 0.1F * gradient[i];
    });
    scaler.update();
    monitor.end_attempt();
    if (step % 50 == 0)
      std::printf("step %d, loss %g, scale %g\n", step, static_cast<double>(loss), static_cast<double>(scaler.get_scale()));
  }
  return monitor.close() ? 0 : 1;  // 1: no server took the reports; the training itself went on
}
