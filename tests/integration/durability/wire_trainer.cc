// What recorded streams of the client protocol hold: a short training by hand that uses all that a client can say from host
// memory.
//   client_wire_trainer SERVER RUN ATTEMPTS RANK WORLD_SIZE
// Every tensor has four elements. An attempt in eight overflows and is skipped; the last one has a NaN loss.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>

#include "scalewatch/scalewatch.hpp"

int main(int argc, char** argv) try {
  if (argc != 6) return 2;
  scalewatch::MonitorOptions options;
  options.server = argv[1];
  options.run = argv[2];
  const int attempts = std::atoi(argv[3]);
  options.rank = static_cast<std::uint32_t>(std::atoi(argv[4]));
  options.world_size = static_cast<std::uint32_t>(std::atoi(argv[5]));
  options.labels = {{"team", "wire"}};
  options.histogram_every = 4;
  options.buffer_bytes = 64 << 10;
  options.ring_attempts = -1;
  scalewatch::Monitor monitor(options);
  const auto scaler = monitor.add_scaler("default", "pytorch", {{"init_scale", 1024}, {"growth_interval", 2000}});
  scalewatch::OptimizerOptions adam;
  adam.class_name = "Adam";
  adam.lr = 1e-3;
  const auto optimizer = monitor.add_optimizer(adam);
  scalewatch::TensorOptions tensor;
  tensor.name = "first.weight";
  tensor.dtype = SCALEWATCH_FP16;
  tensor.numel = 4;
  const auto gradient = monitor.add_tensor(tensor);
  tensor.name = "second \"quoted\" \u00fc";
  tensor.role = SCALEWATCH_ACTIVATION;
  tensor.dtype = SCALEWATCH_FP32;
  tensor.forward_index = 1;
  const auto activation = monitor.add_tensor(tensor);

  double scale = 1024;
  for (int attempt = 1; attempt <= attempts; ++attempt) {
    const bool skipped = attempt % 8 == 5;
    const auto worth = static_cast<float>(attempt);
    const float inf = std::numeric_limits<float>::infinity();
    const _Float16 gradients[4] = {static_cast<_Float16>(worth), static_cast<_Float16>(-1e-6F), static_cast<_Float16>(0),
                                   static_cast<_Float16>(skipped ? inf : 0.5F)};
    const float activations[4] = {worth, -0.25F, 1e-6F, 100};
    monitor.begin_attempt(attempt);
    monitor.observe(gradient, gradients, 4, scale);
    monitor.observe(activation, activations, 4, 1, SCALEWATCH_FP16);
    monitor.observe_optimizer(scaler, optimizer, skipped ? 1 : 0, skipped ? 1 : 0,
                              skipped ? SCALEWATCH_SKIPPED : SCALEWATCH_APPLIED);
    const double before = scale;
    if (skipped) scale /= 2;
    monitor.observe_scaler(scaler, before, scale, skipped ? 0 : attempt);
    monitor.set_loss(attempt == attempts ? std::numeric_limits<double>::quiet_NaN() : 1.0 / attempt);
    monitor.set_lr(1e-3);
    monitor.set_grad_norm(worth, true, false);
    if (attempt == 2) monitor.misuse("update_missing", "recorded", false);
    monitor.end_attempt();
  }
  std::printf("made\n");
  std::fflush(stdout);
  return monitor.close(60'000) ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
