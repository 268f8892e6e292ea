// nanoGPT and its copies: "iter 100: loss 4.2341, time 30.12ms, mfu 3.01%" and "step 0: train loss 4.28, val loss 4.29", whose
// losses are means of an evaluation.
#include "server/logimport/formats/formats.h"
#include "server/logimport/formats/record.h"

namespace scalewatch::logimport {
namespace {

constexpr std::string_view kAnchors[] = {"iter ", "step "};
constexpr std::string_view kNeeded[] = {": loss ", ", time "};
constexpr RecordSpec kSpec = {.name = "nanogpt",
                              .anchors = kAnchors,
                              .needed = kNeeded,
                              .rules = {.loss_span = Reading::Span::kStep, .counts_attempts = true},
                              .region = RecordSpec::Region::kAnchor};

}  // namespace

std::unique_ptr<Format> make_nanogpt() {
  return make_record_format(kSpec);
}

}  // namespace scalewatch::logimport
