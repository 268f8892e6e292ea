// DeepSpeed with ZeRO, and what its engine prints in any mode. Its fused and unfused optimizers: optimizer_overflow.cc.
#include "server/logimport/formats/formats.h"
#include "server/logimport/template_format.h"

namespace scalewatch::logimport {
namespace {

using Kind = Reading::Kind;

// Counted since the run began; the step is that of attempts.
bool engine_step(Reading& reading) {
  reading.skipped_span = Reading::Span::kTotal;
  reading.step_counts_attempts = true;
  return true;
}

// Its pipeline engine: the loss of this step's micro-batches.
bool pipeline_step(Reading& reading) {
  reading.loss_span = Reading::Span::kStep;
  reading.step_counts_attempts = true;
  return true;
}

bool fixed(Reading& reading) {
  reading.scale_is_static = true;
  return true;
}

constexpr LineRule kRules[] = {
    {.text = "OVERFLOW! Rank {rank} Skipping step. Attempted loss scale: {scale_before}, reducing to {scale_after}",
     .kind = Kind::kSkip,
     .policy = "deepspeed"},
    {.text =
         "OVERFLOW! Rank {rank} Skipping step. Attempted loss scale: {scale_before}, but hysteresis is {hysteresis_before}. "
         "Reducing hysteresis to {hysteresis_after}",
     .kind = Kind::kHeldSkip,
     .policy = "deepspeed"},
    {.text = "step={step}, skipped={skipped}, lr=[{lr}", .kind = Kind::kRecord, .policy = "deepspeed", .finish = engine_step},
    {.text = "step={step}, skipped={skipped}", .kind = Kind::kRecord, .policy = "deepspeed", .finish = engine_step},
    {.text = "steps: {step} loss: {loss} {...}iter time (s): {_}",
     .kind = Kind::kRecord,
     .policy = "deepspeed",
     .finish = pipeline_step},
    {.text = "steps: {step} loss: {loss} iter time (s): {_}",
     .kind = Kind::kRecord,
     .policy = "deepspeed",
     .finish = pipeline_step},
    {.text = "Using static loss scale of: {scale}", .kind = Kind::kScale, .finish = fixed},
    {.text = "rank {rank} detected overflow {_} in tensor {tensor} shape",
     .kind = Kind::kNonFinite,
     .policy = "deepspeed",
     .where = "backward"},
    {.text = "Current loss scale already at minimum - cannot decrease scale anymore.",
     .kind = Kind::kFatal,
     .policy = "deepspeed",
     .place = Place::kSpoken},
};

}  // namespace

std::unique_ptr<Format> make_deepspeed() {
  return std::make_unique<TemplateFormat>("deepspeed", kRules);
}

}  // namespace scalewatch::logimport
