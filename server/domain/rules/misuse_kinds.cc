#include "server/domain/rules/misuse_kinds.h"

#include <algorithm>
#include <array>

namespace scalewatch::domain {
namespace {

struct Entry {
  std::string_view kind;
  std::string_view text;
  std::string_view advice;
};

constexpr std::array kKinds{
    Entry{"clip_before_unscale", "gradients are clipped while they are still scaled",
          "call scaler.unscale_(optimizer) once before clip_grad_norm_: clipping scaled gradients divides max_norm by the "
          "scale, so every step is clipped to almost nothing"},
    Entry{"unscale_twice", "unscale_() was called twice for one step",
          "call unscale_ once per optimizer and update(), only where gradients are complete: under accumulation, on the last "
          "micro-batch (if accelerator.sync_gradients: clip)"},
    Entry{"unscale_after_step", "unscale_() was called after step()",
          "the order is unscale_(optimizer), clip, step(optimizer), update(); move unscale_ before step"},
    Entry{"step_twice", "step() was called twice without an update() between",
          "call scaler.update() once after the steps of all optimizers, before the next step()"},
    Entry{"step_without_scale", "the loss was never scaled before step()",
          "run backward on scaler.scale(loss), not on the loss itself"},
    Entry{"update_missing", "update() was not called after step()",
          "call scaler.update() once an iteration, after the steps of all optimizers; without it neither backoff nor growth "
          "takes place"},
    Entry{"update_twice", "update() was called more than once for one step",
          "call scaler.update() once an iteration, outside of loops over optimizers and micro-batches"},
    Entry{"update_without_checks", "update() was called though no gradient had been checked",
          "call update() only after unscale_ or step() of at least one optimizer that has gradients"},
    Entry{"out_of_order", "the scaler's calls came out of order",
          "the order is scale(loss).backward(), unscale_(optimizer), clip, step(optimizer), update()"},
    Entry{
        "no_inf_checks", "an optimizer had no gradients to check",
        "its parameters got no gradient: look for a loss that is constant or detached, a skipped sub-network, or an optimizer "
        "over the wrong parameters; call step() and unscale_ only for optimizers that took part in backward, on every rank "
        "alike, and never remove the framework's assertion"},
    Entry{
        "no_gradients", "an optimizer had no gradients",
        "its parameters got no gradient: look for a loss that is constant or detached, a skipped sub-network, or an optimizer "
        "over the wrong parameters; call step() and unscale_ only for optimizers that took part in backward, on every rank "
        "alike, and never remove the framework's assertion"},
    Entry{
        "fp16_parameters", "trainable parameters are fp16",
        "keep trainable parameters in fp32 and let autocast cast them: GradScaler keeps no master weights; print the dtype of "
        "every parameter to find those that .half() or a converted layer has left in fp16"},
    Entry{"scale_changed", "the scale changed between accumulated backward passes",
          "accumulate under one scale: step() and update() only after the last micro-batch"},
    Entry{"scaler_not_restored", "the scaler's state was not restored at resume",
          "save scaler.state_dict() with the checkpoint and load it at resume"},
    Entry{"scheduler_on_skip", "the learning rate scheduler went on over skipped steps",
          "step the scheduler only when the optimizer stepped: compare scaler.get_scale() before and after update(), a smaller "
          "one means that the step was skipped (fused optimizers are called all the same)"},
    Entry{"scheduler_never", "the learning rate scheduler never stepped",
          "call scheduler.step() after scaler.update(), once for every applied step"},
    Entry{"bad_scale", "the scale was set to a value that is no scale", "update(new_scale) needs a finite number above 0"},
};

const Entry* find(std::string_view kind) {
  const auto found = std::find_if(kKinds.begin(), kKinds.end(), [&](const Entry& entry) { return entry.kind == kind; });
  return found == kKinds.end() ? nullptr : &*found;
}

}  // namespace

std::string_view misuse_text(std::string_view kind) {
  const Entry* entry = find(kind);
  return entry == nullptr ? std::string_view() : entry->text;
}

std::string_view misuse_advice(std::string_view kind) {
  const Entry* entry = find(kind);
  return entry == nullptr ? std::string_view() : entry->advice;
}

}  // namespace scalewatch::domain
