// A CUDA trainer that Scalewatch watches: gradients, scale and found_inf lie on the GPU. Its gradients are made up.
//
//   scalewatch_gpu_trainer HOST:PORT RUN STEPS BAD_FROM BAD_TO
//
// From attempt BAD_FROM to BAD_TO the gradient of layers.1.weight holds an Inf. Exit status 0 when all was durable; 77: no GPU.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "scalewatch/scalewatch.hpp"
#include "tests/gpu/gpu.h"

namespace scalewatch::gpu {
namespace {

constexpr std::size_t kNumel = 1000;

template <class T>
T* pointer(std::uint64_t address) {
  return reinterpret_cast<T*>(address);
}

int train(const char* server, const char* run, int steps, int bad_from, int bad_to) {
  Gpu gpu;
  MonitorOptions options;
  options.server = server;
  options.run = run;
  options.framework = "cuda";
  Monitor monitor(options);
  const auto scaler = monitor.add_scaler("default", "pytorch", {{"init_scale", 65536}, {"growth_interval", 2000}});
  OptimizerOptions adam;
  adam.class_name = "Adam";
  const auto optimizer = monitor.add_optimizer(adam);

  struct Layer {
    std::uint32_t gradient = 0, activation = 0;
    std::uint64_t memory = 0, output = 0;
  };
  std::vector<Layer> layers;
  for (std::uint32_t i = 0; i < 3; ++i) {
    const std::string name = "layers." + std::to_string(i);
    Layer layer;
    layer.gradient = monitor.add_tensor({name + ".weight", SCALEWATCH_GRADIENT, SCALEWATCH_FP32, kNumel, i, "default", "", ""});
    layer.activation = monitor.add_tensor({name, SCALEWATCH_ACTIVATION, SCALEWATCH_FP32, kNumel, i, "", "", ""});
    layer.memory = gpu.allocate(kNumel * sizeof(float));
    layer.output = gpu.put(std::vector<float>(kNumel, 0.5F + static_cast<float>(i)));
    layers.push_back(layer);
  }
  float scale = 65536;
  std::int32_t tracker = 0;
  const std::uint64_t scale_at = gpu.put(std::vector<float>{scale});
  const std::uint64_t tracker_at = gpu.put(std::vector<std::int32_t>{tracker});
  const std::uint64_t found_inf_at = gpu.put(std::vector<float>{0});
  const scalewatch::Gpu on{0, gpu.stream()};

  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(kNumel);
  for (int step = 1; step <= steps; ++step) {
    const bool bad = step >= bad_from && step <= bad_to;
    monitor.begin_attempt(step);
    monitor.set_loss(1.0 / step);
    for (const Layer& layer : layers) {
      DeviceTensorOptions transient;
      transient.transient = true;
      monitor.observe_device(layer.activation, pointer<void>(layer.output), kNumel, on, transient);
    }
    for (std::size_t i = layers.size(); i-- > 0;) {
      std::generate(values.begin(), values.end(), [&] { return 1e-3F * normal(random) * scale; });
      if (bad && i == 1) values[17] = std::numeric_limits<float>::infinity();
      gpu.upload(layers[i].memory, values.data(), kNumel * sizeof(float));
      DeviceTensorOptions scaled;
      scaled.scale_at = pointer<float>(scale_at);
      monitor.observe_device(layers[i].gradient, pointer<void>(layers[i].memory), kNumel, on, scaled);
    }
    monitor.measure_device();  // before the optimizer unscales them
    const float found_inf = bad ? 1 : 0;
    gpu.upload(found_inf_at, &found_inf, sizeof found_inf);
    monitor.observe_optimizer_device(scaler, optimizer, on, pointer<float>(found_inf_at), pointer<float>(found_inf_at));
    monitor.observe_scaler_device(scaler, on, pointer<float>(scale_at));
    monitor.measure_device();  // before the scaler's update
    gpu.wait();                // the uploads that follow are on another stream
    if (bad) scale /= 2;
    tracker = bad ? 0 : tracker + 1;
    gpu.upload(scale_at, &scale, sizeof scale);
    gpu.upload(tracker_at, &tracker, sizeof tracker);
    monitor.observe_scaler_device(scaler, on, nullptr, pointer<float>(scale_at), pointer<std::int32_t>(tracker_at));
    monitor.end_attempt();
    gpu.wait();
  }
  const bool durable = monitor.wait_durable(30'000);
  const scalewatch_stats stats = monitor.stats();
  std::printf("%d attempts, %.1f CUDA driver calls and %.1f us of the trainer's thread an attempt, %llu measurements lost\n",
              steps, static_cast<double>(stats.cuda_driver_calls) / steps,
              static_cast<double>(stats.trainer_thread_ns) * 1e-3 / steps,
              static_cast<unsigned long long>(stats.device_lost_quiet + stats.device_lost_busy + stats.device_lost_late));
  return monitor.close() && durable ? 0 : 1;
}

}  // namespace
}  // namespace scalewatch::gpu

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "usage: %s HOST:PORT RUN STEPS BAD_FROM BAD_TO\n", argv[0]);
    return 2;
  }
  return scalewatch::gpu::train(argv[1], argv[2], std::atoi(argv[3]), std::atoi(argv[4]), std::atoi(argv[5]));
}
