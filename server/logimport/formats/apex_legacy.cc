// Apex's FP16_Optimizer from before amp, and NVIDIA's example copies of it: the attempted scale, with or without the new one.
#include "server/logimport/formats/formats.h"
#include "server/logimport/template_format.h"

namespace scalewatch::logimport {
namespace {

constexpr LineRule kRules[] = {
    {.text = "OVERFLOW! Skipping step. Attempted loss scale: {scale_before}[[, reducing to {scale_after}]]",
     .kind = Reading::Kind::kSkip,
     .policy = "apex_fp16_optimizer"},
};

}  // namespace

std::unique_ptr<Format> make_apex_legacy() {
  return std::make_unique<TemplateFormat>("apex_legacy", kRules);
}

}  // namespace scalewatch::logimport
