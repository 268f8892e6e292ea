// Wrong use of the scaler: told by what the framework raised, or by the numbers.
#include <cmath>

#include "tests/integration/scenarios/trainer.h"

namespace scalewatch::scenarios {
namespace {

constexpr const char* kNoInfChecks = "No inf checks were recorded for this optimizer.";

// One scaler, two optimizers. `second`: what is seen of the second one's step.
void two_optimizers(Monitor& monitor, std::int64_t step, scalewatch_outcome second) {
  check(monitor.begin_attempt(step));
  check(monitor.set_loss(1.2 + 0.1 * std::sin(static_cast<double>(step))));
  check(monitor.observe_scaler(0, 0x1p16, 0x1p16, step));
  check(monitor.observe_optimizer(0, 0, 0, 0, SCALEWATCH_APPLIED));
  if (second != SCALEWATCH_OUTCOME_UNKNOWN) check(monitor.observe_optimizer(0, 1, 0, 0, second));
}

void declare_two(Monitor& monitor, const char* first, const char* second) {
  monitor.add_scaler("default", "pytorch", Setup().parameters);
  for (const char* name : {first, second}) {
    OptimizerOptions optimizer;
    optimizer.name = name;
    optimizer.class_name = "Adam";
    monitor.add_optimizer(optimizer);
  }
}

// The generator's graph is cut: step() asserts at once. The user deletes the assertion, and step() then does nothing at all.
void gof_2(const Job& job) {
  const char* detail = "0 of 112 parameters of optimizer_G have a gradient";
  Setup setup;
  {
    Monitor monitor = open_monitor(job, setup);
    declare_two(monitor, "optimizer_D", "optimizer_G");
    two_optimizers(monitor, 0, SCALEWATCH_OUTCOME_UNKNOWN);
    check(monitor.misuse("no_inf_checks", kNoInfChecks, true));
    check(monitor.end_attempt());
    finish(monitor);
  }
  Monitor monitor = open_monitor(job, setup);
  declare_two(monitor, "optimizer_D", "optimizer_G");
  for (int i = 0; i < 60; ++i) {
    two_optimizers(monitor, i, SCALEWATCH_OUTCOME_UNKNOWN);
    check(monitor.misuse("no_gradients", detail, false));
    check(monitor.end_attempt());
  }
  finish(monitor);
}

// training_step returns None for the second optimizer at step 10.
void lightning_7975(const Job& job) {
  Monitor monitor = open_monitor(job, {});
  declare_two(monitor, "optimizer_0", "optimizer_1");
  for (int i = 0; i < 10; ++i) {
    two_optimizers(monitor, i, SCALEWATCH_APPLIED);
    check(monitor.end_attempt());
  }
  two_optimizers(monitor, 10, SCALEWATCH_OUTCOME_UNKNOWN);
  check(monitor.misuse("no_inf_checks", "optimizer_1: No inf checks were recorded for this optimizer.", true));
  check(monitor.end_attempt());
  finish(monitor);
}

// The second micro-batch unscales again and raises. Once that is guarded, the run trains for two epochs of 40 and the loss is
// NaN.
void accelerate_641(const Job& job) {
  Setup setup;
  setup.framework = "accelerate";
  {
    Trainer trainer(job, setup);
    trainer.attempt({.step = 1,
                     .loss = 2.3,
                     .raised = "unscale_twice",
                     .detail = "unscale_() has already been called on this optimizer since the last update()."});
    trainer.finish();
  }
  Trainer trainer(job, setup);
  for (int i = 1; i <= 80; ++i) trainer.attempt({.step = i, .loss = 2.3 - 0.01 * i, .lr = 1e-4});
  for (int i = 81; i <= 84; ++i) trainer.attempt({.step = i, .loss = std::nan(""), .lr = 1e-4});
  trainer.finish();
}

// One layer of an fp32 model is fp16.
void adaface_127(const Job& job) {
  Setup setup;
  setup.layers = {"input_layer.0", "PReLU", "body.0", "output_layer"};
  setup.fp16_layers = {"PReLU"};
  Trainer trainer(job, setup);
  trainer.attempt({.step = 0,
                   .loss = 25,
                   .raised = "fp16_parameters",
                   .detail = "Attempting to unscale FP16 gradients. PReLU.weight is float16."});
  trainer.finish();
}

// A schedule of 100 steps, 7 of which a fused optimizer skips inside its kernel: the learning rate falls on all the same.
void accelerate_4242(const Job& job) {
  Setup setup;
  setup.framework = "accelerate 1.14";
  setup.optimizer.class_name = "AdamW";
  setup.optimizer.lr = 1e-3;
  setup.optimizer.fused = true;
  Trainer trainer(job, setup);
  for (int i = 1; i <= 100; ++i) {
    Step step{.step = i, .loss = 3 - 0.01 * i, .lr = 1e-3 * (101 - i) / 100};
    if (i % 13 == 5 && i > 10) step.backward = 1;
    trainer.attempt(step);
  }
  trainer.finish();
}

// clip_grad_norm_(params, 12) on gradients that still hold a scale of 65536: all steps are clipped to 12 / 65536.
void pytorch_40907(const Job& job) {
  Setup setup;
  setup.layers = {"conv1", "conv2", "fc1", "fc2"};
  Trainer trainer(job, setup);
  for (int i = 1; i <= 30; ++i) {
    trainer.attempt(
        {.step = i, .loss = 2.30 + 0.02 * std::sin(i), .lr = 0.01, .gradient = 0.03 + 0.01 * std::sin(i), .clip = 12});
  }
  trainer.finish();
}

// As before in MXNet, by the norm alone: no gradient is measured.
void mxnet_15738(const Job& job) {
  Setup setup;
  setup.framework = "mxnet";
  Monitor monitor = open_monitor(job, setup);
  monitor.add_scaler("default", "apex_amp", {{"init_scale", 0x1p16}, {"scale_window", 2000}});
  monitor.add_optimizer({});
  for (int i = 1; i <= 30; ++i) {
    check(monitor.begin_attempt(i));
    check(monitor.set_loss(6.9 + 0.05 * std::sin(i)));
    check(monitor.set_grad_norm(0.25, true, true));
    check(monitor.observe_scaler(0, 0x1p16, 0x1p16, i));
    check(monitor.observe_optimizer(0, 0, 0, 0, SCALEWATCH_APPLIED));
    check(monitor.end_attempt());
  }
  finish(monitor);
}

}  // namespace

void add_misuses(Scenarios& into) {
  into["gof-2"] = gof_2;
  into["lightning-7975"] = lightning_7975;
  into["accelerate-641"] = accelerate_641;
  into["adaface-127"] = adaface_127;
  into["accelerate-4242"] = accelerate_4242;
  into["pytorch-40907"] = pytorch_40907;
  into["mxnet-15738"] = mxnet_15738;
}

}  // namespace scalewatch::scenarios
