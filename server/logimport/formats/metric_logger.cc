// The MetricLogger of DETR, DeiT, MAE, BEiT, torchvision and maskrcnn-benchmark: "Epoch: [0]  [ 10/1251]  eta: ..  loss: 6.9
// (7.0)  ..  max mem: 3105". The first number is the median of the last 20 steps, the one in parentheses the mean of all.
#include "server/logimport/formats/formats.h"
#include "server/logimport/formats/record.h"

namespace scalewatch::logimport {
namespace {

constexpr std::string_view kAnchors[] = {"max mem:"};
constexpr std::string_view kNeeded[] = {"eta:"};
constexpr RecordSpec kSpec = {.name = "metric_logger",
                              .anchors = kAnchors,
                              .needed = kNeeded,
                              .rules = {.loss_span = Reading::Span::kInterval,
                                        .grad_norm_span = Reading::Span::kInterval,
                                        .scale_span = Reading::Span::kInterval,
                                        .first_is_mean = true,
                                        .counts_attempts = true}};

}  // namespace

std::unique_ptr<Format> make_metric_logger() {
  return make_record_format(kSpec);
}

}  // namespace scalewatch::logimport
