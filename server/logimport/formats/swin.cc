// Swin, SimMIM and their many copies: "Train: [3/300][370/1251]  eta .. lr ..  loss 6.35 (6.13)  grad_norm 2.03 (inf)". The
// first number is of this step; the one in parentheses is the mean since the epoch began, which one skip spoils.
#include "server/logimport/formats/formats.h"
#include "server/logimport/formats/record.h"

namespace scalewatch::logimport {
namespace {

constexpr std::string_view kAnchors[] = {"Train: ["};
constexpr std::string_view kNeeded[] = {"eta ", "loss "};
constexpr RecordSpec kSpec = {.name = "swin",
                              .anchors = kAnchors,
                              .needed = kNeeded,
                              .rules = {.loss_span = Reading::Span::kStep,
                                        .grad_norm_span = Reading::Span::kStep,
                                        .scale_span = Reading::Span::kStep,
                                        .counts_attempts = true},
                              .region = RecordSpec::Region::kAnchor};

}  // namespace

std::unique_ptr<Format> make_swin() {
  return make_record_format(kSpec);
}

}  // namespace scalewatch::logimport
