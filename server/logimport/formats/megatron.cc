// Megatron-LM and its relatives: one line for each log interval, nothing for an overflow.
//   iteration     5427/  250000 | consumed samples: 43416 | .. | lm loss: 9.1E+00 | loss scale: 1.0 | grad norm: 0.831 |
//   number of skipped iterations:   0 | number of nan iterations:   0 |
// Both counters are of the interval. A mean loss that is NaN is left out, as it is when every step was skipped.
#include <cmath>

#include "server/logimport/formats/formats.h"
#include "server/logimport/formats/record.h"
#include "server/logimport/template_format.h"

namespace scalewatch::logimport {
namespace {

using Span = Reading::Span;

constexpr std::string_view kAnchors[] = {"elapsed time per iteration", "number of skipped iterations"};
constexpr std::string_view kNeeded[] = {"iteration", "loss scale"};
constexpr KeyRule kKeys[] = {{"lm loss", Meaning::kLoss},
                             {"number of skipped iterations", Meaning::kSkipped},
                             {"number of nan iterations", Meaning::kNanSkipped},
                             {"elapsed time per iteration (ms)", Meaning::kNone},
                             {"elapsed time per iteration", Meaning::kNone}};

bool of_interval(const Pairs& /*pairs*/, Reading& reading) {
  if (!reading.step) return false;
  reading.kind = Reading::Kind::kRecord;
  reading.skipped_span = Span::kInterval;
  reading.loss_missing = !reading.loss;
  return true;
}

constexpr RecordSpec kSpec = {.name = "megatron",
                              .anchors = kAnchors,
                              .needed = kNeeded,
                              .rules = {.keys = kKeys,
                                        .loss_span = Span::kInterval,
                                        .grad_norm_span = Span::kStep,
                                        .scale_span = Span::kStep,
                                        .counts_attempts = true,
                                        .policy = "megatron"},
                              .finish = of_interval};

constexpr LineRule kRules[] = {
    {.text = "validation loss at iteration {step} | {...} value: {valid_loss}", .kind = Reading::Kind::kRecord},
    {.text = "validation loss at iteration {step} on {...} value: {valid_loss}", .kind = Reading::Kind::kRecord},
    {.text = "successfully loaded checkpoint from {...} at iteration {step}", .kind = Reading::Kind::kCheckpoint},
    {.text = "successfully loaded checkpoint from {...}[ t {...} ] at iteration {step}", .kind = Reading::Kind::kCheckpoint},
    {.text = "[before the start of training step]", .kind = Reading::Kind::kRunStart},
    {.text = "[after training is done]", .kind = Reading::Kind::kEnd},
};

}  // namespace

std::unique_ptr<Format> make_megatron() {
  return make_record_format(kSpec);
}
std::unique_ptr<Format> make_megatron_events() {
  return std::make_unique<TemplateFormat>("megatron", kRules);
}

}  // namespace scalewatch::logimport
