// WeNet: "TRAIN Batch 4/900 loss 12.5 loss_att 10.5 loss_ctc 16.5 lr 0.0003 rank 0": epoch and batch of it. Each
// rank prints its own loss.
#include "server/logimport/formats/formats.h"
#include "server/logimport/template_format.h"

namespace scalewatch::logimport {
namespace {

using Kind = Reading::Kind;

bool of_step(Reading& reading) {
  reading.loss_span = Reading::Span::kStep;
  return true;
}

constexpr LineRule kRules[] = {
    {.text = "TRAIN Batch {epoch}/{batch} loss {loss}[[ {...}lr {lr}]][[ rank {rank}]]",
     .kind = Kind::kRecord,
     .finish = of_step},
    {.text = "CV Batch {epoch}/{batch} loss {valid_loss}[[ {...}rank {rank}]]", .kind = Kind::kRecord},
};

}  // namespace

std::unique_ptr<Format> make_wenet() {
  return std::make_unique<TemplateFormat>("wenet", kRules);
}

}  // namespace scalewatch::logimport
