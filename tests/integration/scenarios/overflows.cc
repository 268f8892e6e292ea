// Values too large for fp16, forward or backward.
#include <cmath>

#include "tests/integration/scenarios/trainer.h"

namespace scalewatch::scenarios {
namespace {

// The outputs of wo grow, and at iteration 34 an element of one is 66246.39: 1% too large for fp16.
void transformers_5651(const Job& job) {
  Setup setup;
  setup.framework = "apex O1";
  setup.policy = "apex_amp";
  setup.parameters = {{"init_scale", 0x1p16}, {"scale_window", 2000}};
  setup.layers = {"encoder.block.0.DenseReluDense.wo", "encoder.block.1.DenseReluDense.wo", "encoder.final_layer_norm",
                  "lm_head"};
  Trainer trainer(job, setup);
  for (int i = 0; i < 40; ++i) {
    Step step{.step = i, .loss = 5 - 0.02 * i, .lr = 1e-4, .activation = 200.0 * (1 + i)};
    if (i >= 34) step.forward = 1;
    trainer.attempt(step);
  }
  trainer.finish();
}

// One dot product of q and k overflows, softmax makes NaN of it.
void transformers_24638(const Job& job) {
  Setup setup;
  setup.framework = "pytorch autocast";
  setup.layers = {"h.0.attn.scores", "h.0.attn.softmax", "h.0.mlp", "lm_head"};
  Trainer trainer(job, setup);
  for (int i = 0; i < 60; ++i) {
    Step step{.step = i, .loss = 3.5 - 0.01 * i, .lr = 5e-5, .activation = 900};
    if (i == 50) step.forward = 0;
    trainer.attempt(step);
  }
  trainer.finish();
}

// Forward peaks at 350 and the loss is finite; backward overflows along the residual stream, again and again where it begins.
// The optimizer skips those steps and training limps.
void unsloth_zoo_866(const Job& job) {
  Setup setup;
  setup.layers = {"model.embed_tokens", "model.layers.0.self_attn.q_norm", "model.layers.1.mlp.experts", "lm_head"};
  Trainer trainer(job, setup);
  for (int i = 0; i < 40; ++i) {
    Step step{.step = i, .loss = 1.8 - 0.01 * i, .lr = 2e-4, .activation = 120};
    if (i == 1 || i == 3 || i == 5) step.backward = 1;
    trainer.attempt(step);
  }
  trainer.finish();
}

// The first convolution gives NaN in half precision on this GPU, whatever the batch.
void yolov5_7908(const Job& job) {
  Setup setup;
  setup.framework = "yolov5";
  setup.layers = {"model.0.conv", "model.1.conv", "model.9.cv2", "model.24.m.0"};
  Trainer trainer(job, setup);
  for (int i = 0; i < 10; ++i) trainer.attempt({.step = i, .loss = 0.1, .lr = 0.01, .nan_layer = 0});
  trainer.finish();
}

}  // namespace

void add_overflows(Scenarios& into) {
  into["transformers-5651"] = transformers_5651;
  into["transformers-24638"] = transformers_24638;
  into["unsloth-zoo-866"] = unsloth_zoo_866;
  into["yolov5-7908"] = yolov5_7908;
}

}  // namespace scalewatch::scenarios
