// NVIDIA's Tacotron 2 and WaveGlow: the number between "loss" and its value is the iteration.
#include "server/logimport/formats/formats.h"
#include "server/logimport/template_format.h"

namespace scalewatch::logimport {
namespace {

using Kind = Reading::Kind;
using Span = Reading::Span;

bool of_step(Reading& reading) {
  reading.loss_span = reading.grad_norm_span = Span::kStep;
  reading.step_counts_attempts = true;
  return true;
}

constexpr LineRule kRules[] = {
    {"Train loss {step} {loss} Grad Norm {grad_norm}[[ {_}s/it]]", Kind::kRecord, {}, of_step},
    {"Train iter{ws}{step} loss {loss} Grad Norm {grad_norm}[[ {_}s/it]]", Kind::kRecord, {}, of_step},
    {"Validation loss {step}:{ws}{valid_loss}", Kind::kRecord},
};

}  // namespace

std::unique_ptr<Format> make_tacotron2() {
  return std::make_unique<TemplateFormat>("tacotron2", kRules);
}

}  // namespace scalewatch::logimport
