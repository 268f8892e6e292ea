// mmcv 1 and 0: "Epoch [1][50/7330]  lr: .., eta: .., data_time: .., loss_cls: .., loss: .., grad_norm: .." and "Iter
// [50/80000]". Numbers are means of the steps since the record before.
#include "server/logimport/formats/formats.h"
#include "server/logimport/formats/record.h"

namespace scalewatch::logimport {
namespace {

constexpr std::string_view kAnchors[] = {"Epoch [", "Iter ["};
constexpr std::string_view kNeeded[] = {"data_time:", "lr: "};
constexpr RecordSpec kSpec = {
    .name = "mmcv",
    .anchors = kAnchors,
    .needed = kNeeded,
    .rules = {.loss_span = Reading::Span::kInterval, .grad_norm_span = Reading::Span::kInterval, .counts_attempts = true},
    .region = RecordSpec::Region::kAnchor};

}  // namespace

std::unique_ptr<Format> make_mmcv() {
  return make_record_format(kSpec);
}

}  // namespace scalewatch::logimport
