// Apex amp: one line for each skip, with the new scale. Older versions do not name the scaler.
#include "server/logimport/formats/formats.h"
#include "server/logimport/template_format.h"

namespace scalewatch::logimport {
namespace {

constexpr LineRule kRules[] = {
    {.text = "Gradient overflow.{ws}Skipping step,[[ loss scaler {scaler}]] reducing loss scale to {scale_after}",
     .kind = Reading::Kind::kSkip,
     .policy = "apex_amp"},
};

}  // namespace

std::unique_ptr<Format> make_apex() {
  return std::make_unique<TemplateFormat>("apex", kRules);
}

}  // namespace scalewatch::logimport
