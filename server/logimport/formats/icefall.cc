// icefall (PyTorch's scaler, its scale also set by hand): "(7/8) Epoch 1, batch 14300, loss[loss=0.66, ..], tot_loss[loss=0.60,
// ..], batch size: 130, lr: 2.73e-02, grad_scale: 6e-05", and its checks for values that are not finite.
#include <limits>

#include "server/logimport/formats/formats.h"
#include "server/logimport/template_format.h"

namespace scalewatch::logimport {
namespace {

using Kind = Reading::Kind;

bool running_mean(Reading& reading) {
  reading.loss_span = Reading::Span::kTotal;
  reading.scale_span = Reading::Span::kStep;
  reading.step_counts_attempts = true;
  return true;
}

// The factor is threshold / norm.
bool norm_of(Reading& reading) {
  const double factor = *reading.grad_norm;
  if (!(factor >= 0) || !(*reading.norm_limit > 0)) return false;
  reading.grad_norm = factor > 0 ? *reading.norm_limit / factor : std::numeric_limits<double>::infinity();
  reading.grad_norm_span = Reading::Span::kStep;
  return true;
}

constexpr LineRule kRules[] = {
    {.text = "Epoch {epoch}, batch {batch}, loss[loss={loss_now}[[, {...}tot_loss[loss={loss}]][[, {...}lr: {lr}]][[, "
             "grad_scale: {scale}]]",
     .kind = Kind::kRecord,
     .policy = "pytorch",
     .finish = running_mean},
    {.text = "Epoch {epoch}, validation: loss={valid_loss}", .kind = Kind::kRecord},
    {.text = "Scaling gradients by {grad_norm}, model_norm_threshold={norm_limit}", .kind = Kind::kNorm, .finish = norm_of},
    {.text = "Parameter dominating tot_sumsq {tensor} with proportion {share}", .kind = Kind::kDominates},
    {.text = "Grad scale is small: {scale}", .kind = Kind::kScale, .policy = "pytorch"},
    {.text = "grad_scale is too small, exiting: {scale}", .kind = Kind::kFatal, .policy = "pytorch"},
    {.text = "The sum of {tensor}.output is not finite", .kind = Kind::kNonFinite, .where = "forward", .non_finite = "both"},
    {.text = "The sum of {tensor}.output[{...}] is not finite",
     .kind = Kind::kNonFinite,
     .where = "forward",
     .non_finite = "both"},
    {.text = "The sum of {tensor}.grad is not finite", .kind = Kind::kNonFinite, .where = "backward", .non_finite = "both"},
};

}  // namespace

std::unique_ptr<Format> make_icefall() {
  return std::make_unique<TemplateFormat>("icefall", kRules);
}

}  // namespace scalewatch::logimport
