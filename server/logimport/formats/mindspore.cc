// MindSpore: the scaler says nothing until it gives up; MindFormers prints overflow and scale with each record.
#include <limits>

#include "server/logimport/formats/formats.h"
#include "server/logimport/template_format.h"

namespace scalewatch::logimport {
namespace {

using Kind = Reading::Kind;

// The step is of the epoch.
bool overflowed(Reading& reading) {
  reading.scale_before = reading.scale;
  reading.scale.reset();
  return true;
}

// Overflow, and the update all the same.
bool updated_anyway(Reading& reading) {
  reading.grad_norm = std::numeric_limits<double>::infinity();
  reading.grad_norm_span = Reading::Span::kStep;
  reading.skipped = 0;
  reading.skipped_span = Reading::Span::kStep;
  reading.scale = reading.scale_after;
  reading.scale_after.reset();
  return true;
}

constexpr LineRule kRules[] = {
    // MindYOLO
    {.text = "overflow, drop step, loss scale adjust to {scale_after}",
     .kind = Kind::kSkip,
     .policy = "mindspore",
     .place = Place::kUnquoted},
    {.text = "overflow, still update, loss scale adjust to {scale_after}",
     .kind = Kind::kRecord,
     .policy = "mindspore",
     .finish = updated_anyway,
     .place = Place::kUnquoted},
    {.text = "Dynamic loss scale Continuous overflow[[:]][[\"]][[']][[,]]{ws}[[{skipped}]]",
     .kind = Kind::kFatal,
     .policy = "mindspore",
     .place = Place::kUnquoted},
    {.text =
         "Epoch:[{ws}{epoch}/{ws}{_}], step:[{ws}{batch}/{ws}{batches_per_epoch}], loss:{ws}{loss}, {...}lr:{ws}{lr}, overflow "
         "cond:{ws}True, loss_scale:{ws}{scale}",
     .kind = Kind::kSkip,
     .policy = "mindspore",
     .finish = overflowed},
    {.text =
         "Epoch:[{ws}{epoch}/{ws}{_}], step:[{ws}{batch}/{ws}{batches_per_epoch}], loss:{ws}{loss}, {...}lr:{ws}{lr}, overflow "
         "cond:{ws}False, loss_scale:{ws}{scale}[[, global_norm:{ws}[{grad_norm}]]",
     .kind = Kind::kRecord,
     .policy = "mindspore"},
};

}  // namespace

std::unique_ptr<Format> make_mindspore() {
  return std::make_unique<TemplateFormat>("mindspore", kRules);
}

}  // namespace scalewatch::logimport
