// MMEngine: "Epoch(train) [1][ 50/7330]  lr: ..  eta: ..  loss: ..  grad_norm: .." and "Iter(train) [ 50/80000]". Numbers are
// means of the steps since the record before.
#include "server/logimport/formats/formats.h"
#include "server/logimport/formats/record.h"

namespace scalewatch::logimport {
namespace {

constexpr std::string_view kAnchors[] = {"Epoch(train)", "Iter(train)"};
constexpr RecordSpec kSpec = {
    .name = "mmengine",
    .anchors = kAnchors,
    .rules = {.loss_span = Reading::Span::kInterval, .grad_norm_span = Reading::Span::kInterval, .counts_attempts = true},
    .region = RecordSpec::Region::kAnchor};

}  // namespace

std::unique_ptr<Format> make_mmengine() {
  return make_record_format(kSpec);
}

}  // namespace scalewatch::logimport
