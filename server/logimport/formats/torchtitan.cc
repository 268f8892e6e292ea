// torchtitan: "step: 10  loss: 8.12  grad_norm: 1.2  memory: ..  tps: ..  mfu: ..". The loss is the mean over ranks of this
// step.
#include "server/logimport/formats/formats.h"
#include "server/logimport/formats/record.h"

namespace scalewatch::logimport {
namespace {

constexpr std::string_view kAnchors[] = {"step: "};
constexpr std::string_view kNeeded[] = {" tps: ", "loss: "};
constexpr RecordSpec kSpec = {
    .name = "torchtitan",
    .anchors = kAnchors,
    .needed = kNeeded,
    .rules = {.loss_span = Reading::Span::kStep, .grad_norm_span = Reading::Span::kStep, .counts_attempts = true},
    .region = RecordSpec::Region::kAnchor};

}  // namespace

std::unique_ptr<Format> make_torchtitan() {
  return make_record_format(kSpec);
}

}  // namespace scalewatch::logimport
