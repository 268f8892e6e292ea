// What the scale did: it vanished, pinned, ran away, or was healthy after all.
#include <cmath>
#include <limits>

#include "tests/integration/scenarios/trainer.h"

namespace scalewatch::scenarios {
namespace {

// amp.load_state_dict brings back a scale of 0, the checkpoint NaN: every step is an overflow that halves 0.
void apex_953(const Job& job) {
  Setup setup;
  setup.framework = "apex O1";
  setup.policy = "apex_amp";
  setup.parameters = {{"init_scale", 0x1p16}, {"scale_window", 2000}};
  setup.scale.scale = 0;
  setup.layers = {"module.conv1", "module.sync_bn1", "module.conv2", "module.fc"};
  Trainer trainer(job, setup);
  trainer.poison_weights();
  for (int i = 0; i < 12; ++i) trainer.attempt({.step = i, .lr = 0.01});
  trainer.finish();
}

// Two FP16_Optimizers, each with a scaler of its own from 2^32. The generator's settles at 2^14; the discriminator's comes down
// to 1 and there skips two of three steps for ever.
void apex_179(const Job& job) {
  Setup setup;
  setup.framework = "apex FP16_Optimizer";
  Monitor monitor = open_monitor(job, setup);
  struct Side {
    const char* name;
    LossScale scale;
  };
  Side sides[] = {{"G", {}}, {"D", {}}};
  for (Side& side : sides) {
    side.scale.scale = 0x1p32;
    side.scale.interval = 1000;
    side.scale.floor = 1;
    const auto scaler = monitor.add_scaler(side.name, "apex_fp16_optimizer");
    OptimizerOptions optimizer;
    optimizer.name = std::string("optimizer_") + side.name;
    optimizer.class_name = "Adam";
    optimizer.scaler = scaler;
    monitor.add_optimizer(optimizer);
  }
  for (int i = 1; i <= 132; ++i) {
    check(monitor.begin_attempt(i));
    check(monitor.set_loss(2 + 0.3 * std::sin(i)));
    for (std::uint32_t s = 0; s < 2; ++s) {
      LossScale& scale = sides[s].scale;
      const bool found = s == 0 ? scale.scale > 0x1p14 : scale.scale > 1 || i % 3 != 0;
      const double before = scale.scale;
      scale.update(found);
      check(monitor.observe_scaler(s, before, scale.scale));
      check(monitor.observe_optimizer(s, s, found ? 1 : 0, found ? 1 : 0, found ? SCALEWATCH_SKIPPED : SCALEWATCH_APPLIED));
    }
    check(monitor.end_attempt());
    pace(monitor, static_cast<std::uint64_t>(i));
  }
  finish(monitor);
}

// "Reducing loss scale to 131072" every few steps takes a growth every few steps as well: a tiny window.
void ms_g3d_9(const Job& job) {
  constexpr std::int64_t kWindow = 4;
  Setup setup;
  setup.framework = "apex O2";
  setup.policy = "apex_amp";
  setup.parameters = {{"init_scale", 0x1p16}, {"scale_window", kWindow}};
  setup.scale.interval = kWindow;
  setup.layers = {"data_bn", "gcn3d1", "sgcn1", "fc"};
  Trainer trainer(job, setup);
  for (int i = 1; i <= 400; ++i) {
    Step step{.step = i, .loss = 3.0 + std::sin(i) / 5 - 0.002 * i, .lr = 0.05};
    if (trainer.scale().scale > 0x1p17) step.backward = static_cast<std::size_t>(i % 4);
    trainer.attempt(step);
  }
  trainer.finish();
}

// lr 1e-10: the weights stand still, and the forward pass overflows from the first batch on until the scaler gives up at 1.
void deepspeedexamples_418(const Job& job) {
  Setup setup;
  setup.framework = "deepspeed-chat step 2";
  setup.policy = "deepspeed";
  setup.parameters = {{"init_scale", 0x1p16}, {"loss_scale_window", 100}, {"hysteresis", 2}, {"min_loss_scale", 1}};
  setup.scale.interval = 100;
  setup.scale.floor = 1;
  setup.scale.hysteresis = 2;
  setup.optimizer.class_name = "FusedAdam";
  setup.optimizer.lr = 1e-10;
  setup.layers = {"word_embeddings", "h.0.mlp", "h.1.mlp", "v_head"};
  Trainer trainer(job, setup);
  for (int i = 1; trainer.scale().scale > 1; ++i) trainer.attempt({.step = i, .lr = 1e-10, .activation = 400, .forward = 2});
  trainer.finish();
}

// 8 of 100 steps with "The grad norm is nan", the loss overflowing in fp16 under autocast each time.
void espnet_3237(const Job& job) {
  Setup setup;
  setup.framework = "espnet2";
  setup.layers = {"encoder.embed", "encoder.encoders.0", "decoder.decoders.0", "decoder.output_layer"};
  Trainer trainer(job, setup);
  for (int i = 1; i <= 100; ++i) {
    const bool bad = i % 12 == 7;
    Step step{.step = i, .loss = bad ? std::numeric_limits<double>::infinity() : 60 - 0.1 * i, .lr = 1e-3};
    trainer.attempt(step);
  }
  trainer.finish();
}

// growth_interval 1 and gradients in fp32 that no scale makes overflow: the scale doubles until it is Inf itself.
void pytorch_98828(const Job& job) {
  Setup setup;
  setup.framework = "pytorch 2.0";
  setup.compute = SCALEWATCH_FP32;
  setup.parameters = {{"init_scale", 0x1p16}, {"growth_interval", 1}};
  setup.scale.interval = 1;
  Trainer trainer(job, setup);
  for (int i = 1; i <= 118; ++i) {
    trainer.attempt({.step = i, .loss = 1e-6, .gradient = 1e-8});
    if (trainer.scale().scale >= 0x1p128) trainer.scale().scale = std::numeric_limits<double>::infinity();
  }
  trainer.finish();
}

// Two records next to each other: 131072, then 5.29e-23. The gradients were None.
void pytorch_157436(const Job& job) {
  constexpr double kThen = 0x1p-74;
  Setup setup;
  setup.framework = "pytorch 2.4";
  setup.optimizer.lr = 1e-3;
  setup.scale.scale = 0x1p17;
  setup.scale.tracker = 300;
  Trainer trainer(job, setup);
  for (int i = 2301; i <= 2330; ++i) trainer.attempt({.step = i, .loss = 0.7, .lr = 1e-3});
  Monitor& monitor = trainer.monitor();
  check(monitor.begin_attempt(2331));
  check(monitor.set_loss(0.7));
  check(monitor.observe_scaler(0, 0x1p17, kThen, 0));
  check(monitor.observe_optimizer(0, 0, std::nan(""), std::nan(""), SCALEWATCH_OUTCOME_UNKNOWN));
  check(monitor.end_attempt());
  trainer.scale().scale = kThen;
  trainer.scale().tracker = 0;
  for (int i = 2332; i <= 2340; ++i) trainer.attempt({.step = i, .loss = 0.7, .lr = 1e-3, .no_gradients = true});
  trainer.finish();
}

// The loss is multiplied by so much that fp16 would need a scale of 0.05; Keras stops at 1.
void tensorflow_38357(const Job& job) {
  Setup setup;
  setup.framework = "tensorflow keras";
  setup.policy = "keras2";
  setup.parameters = {{"initial_scale", 0x1p15}, {"dynamic_growth_steps", 2000}};
  setup.scale.scale = 0x1p15;
  setup.scale.floor = 1;
  setup.layers = {"conv2d", "dense", "dense_1"};
  Trainer trainer(job, setup);
  for (int i = 1; i <= 30; ++i) {
    Step step{.step = i, .loss = 4e5};
    if (trainer.scale().scale > 0.05) step.backward = 2;
    trainer.attempt(step);
  }
  trainer.finish();
}

}  // namespace

void add_scales(Scenarios& into) {
  into["apex-953"] = apex_953;
  into["apex-179"] = apex_179;
  into["ms-g3d-9"] = ms_g3d_9;
  into["deepspeedexamples-418"] = deepspeedexamples_418;
  into["espnet-3237"] = espnet_3237;
  into["pytorch-98828"] = pytorch_98828;
  into["pytorch-157436"] = pytorch_157436;
  into["tensorflow-38357"] = tensorflow_38357;
}

}  // namespace scalewatch::scenarios
