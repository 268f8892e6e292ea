// OpenNMT-py: "Step 400/9000; acc: 41.00; ppl: 9.00; xent: 2.20; lr: 0.0007; 100/120 tok/s; 60 sec", and before version
// 1 "Epoch  1, 400/9000; acc: 4.00; ppl: 900.00; xent: 6.80; ..". The loss is the mean cross entropy of the interval.
#include "server/logimport/formats/formats.h"
#include "server/logimport/template_format.h"

namespace scalewatch::logimport {
namespace {

using Kind = Reading::Kind;

bool of_interval(Reading& reading) {
  reading.loss_span = Reading::Span::kInterval;
  return true;
}

constexpr LineRule kRules[] = {
    {.text = "Step {step}/{ws}{steps_total}; acc:{ws}{accuracy}; ppl:{ws}{_}; xent:{ws}{loss}[[; lr:{ws}{lr}]]",
     .kind = Kind::kRecord,
     .finish = of_interval},
    {.text = "Epoch{ws}{epoch},{ws}{batch}/{ws}{batches_per_epoch}; acc:{ws}{accuracy}; ppl:{ws}{_}; xent:{ws}{loss}",
     .kind = Kind::kRecord,
     .finish = of_interval},
};

}  // namespace

std::unique_ptr<Format> make_opennmt() {
  return std::make_unique<TemplateFormat>("opennmt", kRules);
}

}  // namespace scalewatch::logimport
