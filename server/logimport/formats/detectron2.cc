// Detectron2 and AdelaiDet: "eta: ..  iter: 19  total_loss: 5.3  loss_cls: ..  lr: ..". Losses are medians of the last 20
// steps.
#include "server/logimport/formats/formats.h"
#include "server/logimport/formats/record.h"

namespace scalewatch::logimport {
namespace {

constexpr std::string_view kAnchors[] = {" iter: "};
constexpr std::string_view kNeeded[] = {"total_loss: ", "data_time: "};
constexpr RecordSpec kSpec = {.name = "detectron2",
                              .anchors = kAnchors,
                              .needed = kNeeded,
                              .rules = {.loss_span = Reading::Span::kInterval, .counts_attempts = true},
                              .region = RecordSpec::Region::kAnchor};

}  // namespace

std::unique_ptr<Format> make_detectron2() {
  return make_record_format(kSpec);
}

}  // namespace scalewatch::logimport
