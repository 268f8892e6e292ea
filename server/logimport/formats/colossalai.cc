// Colossal-AI's dynamic scaler.
#include "server/logimport/formats/formats.h"
#include "server/logimport/template_format.h"

namespace scalewatch::logimport {
namespace {

constexpr LineRule kRules[] = {
    {.text = "Overflow occurs, the loss scale is adjusted to {scale_after}",
     .kind = Reading::Kind::kSkip,
     .policy = "colossalai"},
    {.text = "No overflow for consecutive {clean_steps} steps, the loss scale is adjusted to {scale_after}",
     .kind = Reading::Kind::kGrowth,
     .policy = "colossalai"},
    // Its optimizers, with or without the line of the scaler
    {.text = "Found overflow. Skip step", .kind = Reading::Kind::kSkip, .policy = "colossalai", .place = Place::kUnquoted},
};

}  // namespace

std::unique_ptr<Format> make_colossalai() {
  return std::make_unique<TemplateFormat>("colossalai", kRules);
}

}  // namespace scalewatch::logimport
