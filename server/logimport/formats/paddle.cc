// Paddle's dynamic-graph scaler: printed only when it decreases, with the scale before and the factor.
#include "server/logimport/formats/formats.h"
#include "server/logimport/template_format.h"

namespace scalewatch::logimport {
namespace {

// "decrease to: 1024.0*0.5": the template has put the factor into scale.
bool multiply(Reading& reading) {
  *reading.scale_after *= *reading.scale;
  reading.scale.reset();
  return true;
}

constexpr LineRule kRules[] = {
    {.text = "Found inf or nan, current scale is: {scale_before}, decrease to: {scale_after}*{scale}",
     .kind = Reading::Kind::kSkip,
     .policy = "paddle",
     .finish = multiply},
};

}  // namespace

std::unique_ptr<Format> make_paddle() {
  return std::make_unique<TemplateFormat>("paddle", kRules);
}

}  // namespace scalewatch::logimport
