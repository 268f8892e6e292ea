// Values too small for fp16, and fp16 without a scaler.
#include <cmath>
#include <deque>

#include "tests/integration/scenarios/trainer.h"

namespace scalewatch::scenarios {
namespace {

constexpr double kFp16Smallest = 0x1p-24;

// Heat maps: gradients of 1e-11 under a scale of 1024 are all but all 0 in fp16, and nothing is ever skipped.
void paddledetection_8305(const Job& job) {
  Setup setup;
  setup.framework = "paddle O2";
  setup.policy = "paddle";
  setup.parameters = {{"init_loss_scaling", 1024}};
  setup.scale.scale = 1024;
  setup.gradients = SCALEWATCH_FP16;
  setup.layers = {"backbone.conv1", "backbone.stage2", "backbone.stage3", "head.final_conv"};
  Trainer trainer(job, setup);
  for (int i = 0; i < 100; ++i) trainer.attempt({.step = i, .loss = 0.0015, .lr = 2e-3, .gradient = 1.5e-11});
  trainer.finish();
}

// Four ranks, fp16 autocast and no scaler. From iteration 5,970: the first Inf comes at 6,000 and goes into the weights.
void nanogpt_167(const Job& job) {
  Setup setup;
  setup.policy = "none";
  setup.parameters = {};
  setup.world_size = 4;
  setup.optimizer.class_name = "AdamW";
  setup.optimizer.lr = 1e-5;
  setup.layers = {"transformer.wte", "transformer.h.0.attn", "transformer.h.0.mlp", "lm_head"};
  std::deque<Trainer> ranks;
  for (setup.rank = 0; setup.rank < 4; ++setup.rank) ranks.emplace_back(job, setup);
  for (int i = 5970; i < 6010; ++i) {
    Step step{.step = i, .loss = 3.1 + 0.02 * std::sin(i), .lr = 1e-5};
    if (i == 6000) step.backward = 2;
    for (Trainer& rank : ranks) rank.attempt(step);
  }
  for (Trainer& rank : ranks) rank.finish();
}

// Everything in fp16, Adam's state too. After the first step v = 0.001 g^2 is 0 and so is eps: 0 / 0.
void pytorch_147437(const Job& job) {
  constexpr std::uint64_t kElements = Trainer::kElements;
  Setup setup;
  Monitor monitor = open_monitor(job, setup);
  monitor.add_scaler("default", "none");
  OptimizerOptions adam;
  adam.class_name = "Adam";
  adam.lr = 1e-3;
  adam.beta1 = 0.9;
  adam.beta2 = 0.999;
  adam.eps = 1e-8;
  adam.state_dtypes = {SCALEWATCH_FP16};
  monitor.add_optimizer(adam);
  const std::string name = "feature_net.0.weight";
  const auto add = [&](const std::string& tensor, scalewatch_role role) {
    return monitor.add_tensor({tensor, role, SCALEWATCH_FP16, kElements, 0, "default", "", ""});
  };
  const auto gradient = add(name, SCALEWATCH_GRADIENT);
  const auto weight = add(name, SCALEWATCH_PARAMETER);
  const auto second = add(name + ".exp_avg_sq", SCALEWATCH_OPTIMIZER_STATE);
  std::vector<std::uint16_t> gradients(kElements);
  std::vector<std::uint16_t> moments(kElements);
  for (std::size_t i = 0; i < kElements; ++i) {
    const double g = 1e-3 * std::sin(static_cast<double>(i) + 0.5);
    gradients[i] = to_half(g);
    moments[i] = to_half((1 - adam.beta2) * g * g);
  }
  const std::vector<std::uint16_t> nan(kElements, to_half(std::nan("")));
  for (int i = 1; i <= 3; ++i) {
    const bool first = i == 1;
    check(monitor.begin_attempt(i));
    check(monitor.set_loss(first ? 0.9 : std::nan("")));
    check(monitor.observe(gradient, first ? gradients.data() : nan.data(), kElements));
    check(monitor.observe_scaler(0, 1, 1));
    check(monitor.observe_optimizer(0, 0, std::nan(""), std::nan(""), SCALEWATCH_APPLIED));
    check(monitor.observe(weight, nan.data(), kElements));
    check(monitor.observe(second, first ? moments.data() : nan.data(), kElements));
    check(monitor.end_attempt());
  }
  finish(monitor);
}

// Autocast defaults to fp16 and nobody scales: as the loss falls, ever more of the gradient is 0.
void open_rig3r_35(const Job& job) {
  Setup setup;
  setup.framework = "pytorch autocast";
  setup.policy = "none";
  setup.parameters = {};
  setup.gradients = SCALEWATCH_FP16;
  setup.layers = {"encoder.0", "decoder.0", "pose_head", "pointmap_head"};
  Trainer trainer(job, setup);
  for (int i = 0; i < 100; ++i) {
    const double octaves_left = 12 - 0.15 * i;
    trainer.attempt(
        {.step = i, .loss = 30 * std::exp(-0.01 * i), .lr = 1e-4, .gradient = kFp16Smallest * std::exp2(octaves_left)});
  }
  trainer.finish();
}

}  // namespace

void add_underflows(Scenarios& into) {
  into["paddledetection-8305"] = paddledetection_8305;
  into["nanogpt-167"] = nanogpt_167;
  into["pytorch-147437"] = pytorch_147437;
  into["open-rig3r-35"] = open_rig3r_35;
}

}  // namespace scalewatch::scenarios
