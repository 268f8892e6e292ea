// MindSpore's LossMonitor: "epoch: 1 step: 50, loss is 2.31". The step is of the epoch.
#include "server/logimport/formats/formats.h"
#include "server/logimport/template_format.h"

namespace scalewatch::logimport {
namespace {

using Kind = Reading::Kind;

bool of_step(Reading& reading) {
  reading.loss_span = Reading::Span::kStep;
  reading.step_counts_attempts = true;
  return true;
}

constexpr LineRule kRules[] = {
    {.text = "epoch: {epoch} step: {batch}, loss is {loss}", .kind = Kind::kRecord, .policy = "mindspore", .finish = of_step},
    {.text = "epoch: {epoch}, step: {batch}, loss is {loss}", .kind = Kind::kRecord, .policy = "mindspore", .finish = of_step},
    {.text = "epoch: {epoch} step {batch}, loss is {loss}", .kind = Kind::kRecord, .policy = "mindspore", .finish = of_step},
};

}  // namespace

std::unique_ptr<Format> make_mindspore_records() {
  return std::make_unique<TemplateFormat>("mindspore_records", kRules);
}

}  // namespace scalewatch::logimport
