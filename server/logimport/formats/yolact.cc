// YOLACT: "[epoch]  iteration || B: 5.5 | C: 3.1 | M: 7.1 | T: 17.0 || ETA: ..". T is the total; all are means of 100 steps,
// from which the project leaves non-finite ones out.
#include "server/logimport/formats/formats.h"
#include "server/logimport/formats/record.h"

namespace scalewatch::logimport {
namespace {

constexpr std::string_view kAnchors[] = {"|| ETA:", "|| timer:"};
constexpr KeyRule kKeys[] = {{"T", Meaning::kLoss},     {"B", Meaning::kLossPart}, {"C", Meaning::kLossPart},
                             {"M", Meaning::kLossPart}, {"S", Meaning::kLossPart}, {"D", Meaning::kLossPart},
                             {"E", Meaning::kLossPart}, {"P", Meaning::kLossPart}, {"I", Meaning::kLossPart}};

// The two numbers in front: [epoch] iteration.
bool positions(const Pairs& pairs, Reading& reading) {
  for (std::size_t i = 0; i + 1 < pairs.size(); ++i) {
    if (!pairs[i].key.empty() || pairs[i].bracket != '[' || !pairs[i + 1].key.empty()) continue;
    reading.epoch = pairs[i].number.value;
    reading.step = pairs[i + 1].number.count();
    reading.batch.reset();
    return reading.step.has_value() && (reading.loss || reading.loss_part);
  }
  return false;
}

constexpr RecordSpec kSpec = {.name = "yolact",
                              .anchors = kAnchors,
                              .rules = {.keys = kKeys, .loss_span = Reading::Span::kInterval, .counts_attempts = true},
                              .finish = positions};

}  // namespace

std::unique_ptr<Format> make_yolact() {
  return make_record_format(kSpec);
}

}  // namespace scalewatch::logimport
