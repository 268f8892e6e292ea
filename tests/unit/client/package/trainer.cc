// A trainer of another project: builds with C++17 and nothing but the installed package.
#include <cstdio>
#include <vector>

#include "scalewatch/loss_scaler.hpp"

int main() {
  scalewatch::MonitorOptions options;
  options.run = "package";
  options.server = "127.0.0.1:1";
  scalewatch::Monitor monitor(options);
  scalewatch::LossScaler scaler({}, &monitor);
  const auto optimizer = scaler.add_optimizer();
  std::vector<float> gradients(8, scaler.scale(1.0F));
  monitor.begin_attempt(1);
  scaler.step(optimizer, {{gradients.data(), gradients.size()}}, [] {});
  scaler.update();
  monitor.end_attempt();
  monitor.close(100);
  std::printf("scalewatch %s\n", scalewatch_version());
  return gradients[0] == 1.0F ? 0 : 1;
}
