// fairseq's progress lines, old and new:
//   | epoch 001:    300 / 1374 loss=13.689, .., num_updates=290, lr=7.3e-06, gnorm=3.057, .., loss_scale=0.062, ..
//   | epoch 079 | loss 3.536 | .. | num_updates 20077 | lr 0.000446355 | gnorm 0.234 | .. | loss_scale 1.000 | ..
//   {"epoch": 35, "update": 34.289, "loss": "3.005", .., "num_updates": "25600", .., "loss_scale": "0.25", ..}
// Numbers are means of the interval or of the epoch so far, rounded: to 3 digits in old versions, to 4 places in new ones.
#include <cmath>

#include "server/logimport/formats/formats.h"
#include "server/logimport/formats/record.h"

namespace scalewatch::logimport {
namespace {

using Span = Reading::Span;

constexpr double kPlaces = 1e-4;

constexpr std::string_view kAnchors[] = {"num_updates"};
constexpr std::string_view kNeeded[] = {"loss", "epoch"};
constexpr KeyRule kKeys[] = {{"num_updates", Meaning::kGlobalStep},
                             {"train_num_updates", Meaning::kGlobalStep},
                             {"valid_num_updates", Meaning::kGlobalStep},
                             {"gnorm", Meaning::kGradNorm},
                             {"train_gnorm", Meaning::kGradNorm},
                             {"loss_scale", Meaning::kScale},
                             {"train_loss_scale", Meaning::kScale},
                             {"nll_loss", Meaning::kNone},
                             {"train_nll_loss", Meaning::kNone},
                             {"valid_nll_loss", Meaning::kNone},
                             {"update", Meaning::kNone},
                             {"best", Meaning::kNone},
                             {"valid_best_loss", Meaning::kNone}};

bool rounded(const Pairs& /*pairs*/, Reading& reading) {
  if (!reading.step || reading.kind != Reading::Kind::kRecord) return false;
  if (!reading.scale) return true;
  // Old versions print three digits, always; new ones round to the fourth place and leave zeros out ("0.25").
  const bool three_digits = reading.scale_quantum > 0.0009 && reading.scale_quantum < 0.0011;
  if (!three_digits) reading.scale_quantum = kPlaces;
  // The scaler knows powers of two only (but for its floor): anything else is a mean.
  int exponent = 0;
  const bool power = std::frexp(*reading.scale, &exponent) == 0.5;
  reading.scale_span = power || *reading.scale < 100 * reading.scale_quantum ? Span::kStep : Span::kInterval;
  return true;
}

constexpr RecordSpec kSpec = {.name = "fairseq",
                              .anchors = kAnchors,
                              .needed = kNeeded,
                              .rules = {.keys = kKeys,
                                        .loss_span = Span::kInterval,
                                        .grad_norm_span = Span::kInterval,
                                        .counts_attempts = false,
                                        .policy = "fairseq"},
                              .finish = rounded};

}  // namespace

std::unique_ptr<Format> make_fairseq_records() {
  return make_record_format(kSpec);
}

}  // namespace scalewatch::logimport
