// CLU's metric writer (Flax, T5X, big_vision and other JAX trainers): "logging_writer.py:48] [100] learning_rate=0.1,
// loss=2.5". The number in brackets is the step.
#include "server/logimport/formats/formats.h"
#include "server/logimport/formats/record.h"

namespace scalewatch::logimport {
namespace {

constexpr std::string_view kAnchors[] = {"logging_writer.py:"};

bool step_in_brackets(const Pairs& pairs, Reading& reading) {
  for (const Pair& pair : pairs) {
    if (pair.bracket != '[' || !pair.key.empty()) continue;
    reading.step = pair.number.count();
    reading.batch.reset();
    reading.epoch.reset();
    return reading.step.has_value();
  }
  return false;
}

constexpr RecordSpec kSpec = {
    .name = "clu", .anchors = kAnchors, .rules = {}, .region = RecordSpec::Region::kAnchor, .finish = step_in_brackets};

}  // namespace

std::unique_ptr<Format> make_clu() {
  return make_record_format(kSpec);
}

}  // namespace scalewatch::logimport
