// NVIDIA's DLLogger: "DLL 2020-05-18 05:21:26.672680 - Training Epoch: 0 Training Iteration: 1880  average_loss : 7.9 step_loss
// : ..", and its JSON stream, 'DLLL {"type": "LOG", "step": [0, 1880], "data": {"average_loss": 7.9, ..}}', step being epoch
// and iteration.
#include "server/logimport/formats/formats.h"
#include "server/logimport/formats/record.h"

namespace scalewatch::logimport {
namespace {

constexpr std::string_view kTextAnchors[] = {"DLL 20"};
constexpr RecordSpec kText = {.name = "dllogger",
                              .anchors = kTextAnchors,
                              .rules = {.second_span = Reading::Span::kInterval},
                              .finish = [](const Pairs& /*pairs*/, Reading& reading) {
                                return reading.kind == Reading::Kind::kRecord &&
                                       (reading.step || reading.batch || reading.epoch);
                              }};

// "step": [epoch, iteration, ...], or one number.
bool json_step(const Pairs& pairs, Reading& reading) {
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (pairs[i].key != "step") continue;
    if (pairs[i].bracket == '[' && i + 1 < pairs.size() && pairs[i + 1].key.empty()) {
      reading.epoch = pairs[i].number.value;
      reading.step = pairs[i + 1].number.count();
    }
    return reading.kind == Reading::Kind::kRecord;
  }
  return false;
}

constexpr std::string_view kJsonAnchors[] = {"DLLL {"};
constexpr RecordSpec kJson = {
    .name = "dllogger_json", .anchors = kJsonAnchors, .region = RecordSpec::Region::kAnchor, .finish = json_step};

}  // namespace

std::unique_ptr<Format> make_dllogger() {
  return make_record_format(kText);
}

std::unique_ptr<Format> make_dllogger_json() {
  return make_record_format(kJson);
}

}  // namespace scalewatch::logimport
