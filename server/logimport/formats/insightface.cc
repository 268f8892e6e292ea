// arcface_torch of InsightFace: "Loss 44.12  LearningRate 0.07  Epoch: 0  Global Step: 2750  Fp16 Grad Scale: 12800  Required:
// ..". The loss is the mean since the record before, the scale is printed without decimals.
#include "server/logimport/formats/formats.h"
#include "server/logimport/formats/record.h"

namespace scalewatch::logimport {
namespace {

constexpr std::string_view kAnchors[] = {"Fp16 Grad Scale:"};
constexpr std::string_view kNeeded[] = {"Global Step:", "Loss "};
constexpr RecordSpec kSpec = {
    .name = "insightface",
    .anchors = kAnchors,
    .needed = kNeeded,
    .rules = {.loss_span = Reading::Span::kInterval, .scale_span = Reading::Span::kStep, .counts_attempts = true}};

}  // namespace

std::unique_ptr<Format> make_insightface() {
  return make_record_format(kSpec);
}

}  // namespace scalewatch::logimport
