// Trainers that leave an update out when its gradient is not finite, with a scaler or without one.
#include "server/logimport/formats/formats.h"
#include "server/logimport/template_format.h"

namespace scalewatch::logimport {
namespace {

using Kind = Reading::Kind;

// All steps of the interval.
bool in_a_row(Reading& reading) {
  reading.attempts_per_record = reading.skipped;
  reading.skipped_span = Reading::Span::kInterval;
  return true;
}

constexpr LineRule skips(std::string_view text, std::string_view policy = {}) {
  return {.text = text, .kind = Kind::kSkip, .policy = policy, .place = Place::kUnquoted};
}

constexpr LineRule kRules[] = {
    // ESPnet 2 and FunASR; ESPnet 1
    skips("The grad norm is {grad_norm}. Skipping updating the model"),
    skips("grad norm is {grad_norm}. Do not update model"),
    // verl
    skips("WARN: rank {rank} grad_norm is not finite: {grad_norm}"),
    skips("WARN: grad_norm is not finite: {grad_norm}"),
    // GPT-NeoX
    {.text = "Skipped {skipped} iterations in a row due to Overflow",
     .kind = Kind::kRecord,
     .policy = "deepspeed",
     .finish = in_a_row,
     .place = Place::kUnquoted},
};

}  // namespace

std::unique_ptr<Format> make_skipped_updates() {
  return std::make_unique<TemplateFormat>("skipped_updates", kRules);
}

}  // namespace scalewatch::logimport
