// NVIDIA's examples print the scale through DLLogger when a step was skipped: the new one.
#include "server/logimport/formats/formats.h"
#include "server/logimport/template_format.h"

namespace scalewatch::logimport {
namespace {

// Among the settings at the start 0 stands for a dynamic scale.
bool lowered(Reading& reading) {
  reading.scale_after = reading.scale;
  reading.scale.reset();
  return *reading.scale_after > 0;
}

constexpr LineRule kRules[] = {
    {.text = "PARAMETER loss_scale : {scale}", .kind = Reading::Kind::kSkip, .policy = "apex_amp", .finish = lowered},
};

}  // namespace

std::unique_ptr<Format> make_dllogger_scaler() {
  return std::make_unique<TemplateFormat>("dllogger", kRules);
}

}  // namespace scalewatch::logimport
