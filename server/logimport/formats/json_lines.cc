// One JSON object or Python dictionary of numbers a line, from any trainer: {"step": 10, "loss": 2.1, "grad_scale": 65536}.
// mmcv's
// {"mode": "train", "epoch": 1, "iter": 50, ..} has iterations that begin again with each epoch.
#include "server/logimport/formats/formats.h"
#include "server/logimport/formats/record.h"

namespace scalewatch::logimport {
namespace {

constexpr std::string_view kAnchors[] = {"loss\":", "loss':", "scale\":", "scale':", "norm\":", "norm':", "loss_", "/loss"};

// Configurations hold a loss scale too, but no loss, and no step of a training that goes on.
bool is_record(const Pairs& pairs, Reading& reading) {
  const bool position = reading.step || reading.batch || reading.epoch;
  return reading.kind == Reading::Kind::kRecord && position && pairs.size() >= 2;
}

constexpr RecordSpec kSpec = {
    .name = "json_lines", .anchors = kAnchors, .region = RecordSpec::Region::kBraces, .finish = is_record};

constexpr std::string_view kMmcvAnchors[] = {"\"mode\": \"train\"", "\"mode\": \"val\""};

bool of_mmcv(const Pairs& pairs, Reading& reading) {
  if (pairs.find("iter") == nullptr || pairs.find("epoch") == nullptr) return false;
  return reading.kind == Reading::Kind::kRecord;
}

constexpr RecordSpec kMmcvSpec = {.name = "mmcv_json",
                                  .anchors = kMmcvAnchors,
                                  .rules = {.loss_span = Reading::Span::kInterval,
                                            .grad_norm_span = Reading::Span::kInterval,
                                            .counts_attempts = true,
                                            .step_in_epoch = true},
                                  .region = RecordSpec::Region::kBraces,
                                  .finish = of_mmcv};

}  // namespace

std::unique_ptr<Format> make_json_lines() {
  return make_record_format(kSpec);
}

std::unique_ptr<Format> make_mmcv_json() {
  return make_record_format(kMmcvSpec);
}

}  // namespace scalewatch::logimport
