// The trainers of PaddlePaddle: "[Train][Epoch 2/800][Iter: 0/366]lr(..): 0.05, CELoss: .., loss: 12.4, .., reader_cost: ..",
// "epoch: [1/500], global_step: 10, lr: .., loss: ..", "[TRAIN] epoch: 1, iter: 10/1000, loss: ..". Losses are means.
#include "server/logimport/formats/formats.h"
#include "server/logimport/formats/record.h"

namespace scalewatch::logimport {
namespace {

constexpr std::string_view kAnchors[] = {"reader_cost:", "batch_cost:"};
constexpr std::string_view kNeeded[] = {"loss: "};
constexpr RecordSpec kSpec = {.name = "paddle_records",
                              .anchors = kAnchors,
                              .needed = kNeeded,
                              .rules = {.loss_span = Reading::Span::kInterval, .counts_attempts = true}};

}  // namespace

std::unique_ptr<Format> make_paddle_records() {
  return make_record_format(kSpec);
}

}  // namespace scalewatch::logimport
