// GPT-NeoX: Megatron-like, but with lm_loss and the scale of DeepSpeed. Both counters are since the record before.
#include "server/logimport/formats/formats.h"
#include "server/logimport/formats/record.h"

namespace scalewatch::logimport {
namespace {

constexpr std::string_view kAnchors[] = {"lm_loss:"};
constexpr std::string_view kNeeded[] = {"number of skipped iterations:", "iteration "};
constexpr KeyRule kKeys[] = {{"lm_loss", Meaning::kLoss}, {"elapsed time per iteration (ms)", Meaning::kNone}};

bool counters_of_interval(const Pairs& /*pairs*/, Reading& reading) {
  reading.skipped_span = Reading::Span::kInterval;
  return reading.step.has_value();
}

constexpr RecordSpec kSpec = {
    .name = "gpt_neox",
    .anchors = kAnchors,
    .needed = kNeeded,
    .rules = {.keys = kKeys, .loss_span = Reading::Span::kInterval, .counts_attempts = true, .policy = "deepspeed"},
    .finish = counters_of_interval};

}  // namespace

std::unique_ptr<Format> make_gpt_neox() {
  return make_record_format(kSpec);
}

}  // namespace scalewatch::logimport
