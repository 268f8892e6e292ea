// A trainer on libtorch that Scalewatch watches: a two-layer network, fp16 in the middle, and scalewatch::LossScaler in the
// place of PyTorch's GradScaler, which libtorch does not have. Arguments: [RUN [LEARNING_RATE]].
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "scalewatch/loss_scaler.hpp"

namespace {

struct Net : torch::nn::Module {
  Net()
      : hidden(register_module("hidden", torch::nn::Linear(16, 32))), head(register_module("head", torch::nn::Linear(32, 4))) {}

  // The first product runs in fp16, as under autocast; weights stay fp32.
  torch::Tensor forward(const torch::Tensor& x) {
    const auto in_half = torch::linear(x.to(torch::kHalf), hidden->weight.to(torch::kHalf), hidden->bias.to(torch::kHalf));
    return head->forward(torch::relu(in_half).to(torch::kFloat));
  }

  torch::nn::Linear hidden, head;
};

}  // namespace

int main(int argc, char** argv) {
  torch::manual_seed(0);
  torch::set_num_threads(1);
  const double rate = argc > 2 ? std::atof(argv[2]) : 0.1;
  scalewatch::MonitorOptions options;
  options.run = argc > 1 ? argv[1] : "libtorch";  // server: $SCALEWATCH_SERVER, else 127.0.0.1:7462
  options.framework = "libtorch";
  scalewatch::Monitor monitor(options);

  scalewatch::LossScalerOptions scaling;
  scaling.init_scale = 1024.0F;
  scalewatch::LossScaler scaler(scaling, &monitor);
  scalewatch::OptimizerOptions sgd_options;
  sgd_options.name = "sgd";
  sgd_options.class_name = "SGD";
  sgd_options.lr = rate;
  const auto sgd = scaler.add_optimizer(sgd_options);

  Net net;
  torch::optim::SGD optimizer(net.parameters(), rate);
  std::vector<std::uint32_t> ids;
  for (const auto& parameter : net.named_parameters()) {
    scalewatch::TensorOptions gradient;
    gradient.name = parameter.key();
    gradient.role = SCALEWATCH_GRADIENT;
    gradient.numel = static_cast<std::uint64_t>(parameter.value().numel());
    gradient.forward_index = static_cast<std::uint32_t>(ids.size());
    ids.push_back(monitor.add_tensor(gradient));
  }

  const auto inputs = torch::randn({256, 16});
  const auto classes = inputs.slice(1, 0, 4).argmax(1);
  float last = 0;
  for (int step = 1; step <= 100; ++step) {
    monitor.begin_attempt(step);
    optimizer.zero_grad();
    const auto loss = torch::cross_entropy_loss(net.forward(inputs), classes);
    (loss * scaler.scale(1.0F)).backward();
    last = loss.item<float>();
    monitor.set_loss(last);
    std::vector<scalewatch::GradientView> gradients;
    std::size_t next = 0;
    for (auto& parameter : net.parameters()) {
      auto& gradient = parameter.mutable_grad();
      const auto count = static_cast<std::size_t>(gradient.numel());
      monitor.observe(ids[next++], gradient.data_ptr<float>(), count, scaler.get_scale());
      gradients.emplace_back(gradient.data_ptr<float>(), count);
    }
    scaler.step(sgd, gradients, [&] { optimizer.step(); });
    scaler.update();
    monitor.end_attempt();
    if (step % 20 == 0) monitor.wait_durable(5000);  // this loop is faster than any real one
  }
  std::printf("loss %g, scale %g\n", static_cast<double>(last), static_cast<double>(scaler.get_scale()));
  return monitor.close() ? 0 : 1;
}
