// torchtune: its log file has "Step 1 | loss:1.5 lr:2e-05 tokens_per_second_per_gpu:500 grad_norm:..".
#include "server/logimport/formats/formats.h"
#include "server/logimport/formats/record.h"

namespace scalewatch::logimport {
namespace {

constexpr std::string_view kAnchors[] = {"tokens_per_second_per_gpu:"};
constexpr std::string_view kNeeded[] = {"Step ", "loss:"};
constexpr RecordSpec kSpec = {
    .name = "torchtune",
    .anchors = kAnchors,
    .needed = kNeeded,
    .rules = {.loss_span = Reading::Span::kStep, .grad_norm_span = Reading::Span::kStep, .counts_attempts = true}};

}  // namespace

std::unique_ptr<Format> make_torchtune() {
  return make_record_format(kSpec);
}

}  // namespace scalewatch::logimport
