// PyTorch's GradScaler prints nothing but what it refuses, word for word.
#include "server/logimport/formats/formats.h"
#include "server/logimport/template_format.h"

namespace scalewatch::logimport {
namespace {

constexpr LineRule refusal(std::string_view sentence, std::string_view kind) {
  return {.text = sentence, .kind = Reading::Kind::kMisuse, .policy = "pytorch", .place = Place::kSpoken, .misuse_kind = kind};
}

constexpr LineRule kRules[] = {
    refusal("unscale_() has already been called on this optimizer since the last update().", "unscale_twice"),
    refusal("unscale_() is being called after step().", "unscale_after_step"),
    refusal("step() has already been called since the last update().", "step_twice"),
    refusal("Attempting to unscale FP16 gradients.", "fp16_parameters"),
    refusal("No inf checks were recorded for this optimizer.", "no_inf_checks"),
    refusal("No inf checks were recorded prior to update.", "update_without_checks"),
    refusal("Attempted unscale_ but _scale is None.", "step_without_scale"),
    refusal("Attempted step but _scale is None.", "step_without_scale"),
    refusal("Attempted update but _scale is None.", "step_without_scale"),
};

}  // namespace

std::unique_ptr<Format> make_pytorch() {
  return std::make_unique<TemplateFormat>("pytorch", kRules);
}

}  // namespace scalewatch::logimport
