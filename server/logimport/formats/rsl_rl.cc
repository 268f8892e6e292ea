// RSL-RL: a block of lines for each iteration, one number a line; "Learning iteration 8391/10000" heads it.
#include "server/logimport/formats/formats.h"
#include "server/logimport/template_format.h"

namespace scalewatch::logimport {
namespace {

using Kind = Reading::Kind;

constexpr LineRule kRules[] = {
    {.text = "Learning iteration {step}/{steps_total}", .kind = Kind::kProgress, .place = Place::kUnquoted},
    {.text = "Value function loss: {loss_part}", .kind = Kind::kRecord, .place = Place::kSpoken},
    {.text = "Mean value_function loss: {loss_part}", .kind = Kind::kRecord, .place = Place::kSpoken},
};

}  // namespace

std::unique_ptr<Format> make_rsl_rl() {
  return std::make_unique<TemplateFormat>("rsl_rl", kRules);
}

}  // namespace scalewatch::logimport
