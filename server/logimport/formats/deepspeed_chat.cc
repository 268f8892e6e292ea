// DeepSpeed-Chat: "Epoch: 0 | Step: 5 | PPO Epoch: 1 | Actor Loss: .. | Critic Loss: ..", older "epoch: 0|step: 5|ppo_ep: 1|
// act_loss: ..|cri_loss: ..". Its step counts from each epoch on.
#include "server/logimport/formats/formats.h"
#include "server/logimport/formats/record.h"

namespace scalewatch::logimport {
namespace {

constexpr std::string_view kAnchors[] = {"| PPO Epoch:", "|ppo_ep:"};
constexpr KeyRule kKeys[] = {{"PPO Epoch", Meaning::kNone}, {"ppo_ep", Meaning::kNone}};
constexpr RecordSpec kSpec = {.name = "deepspeed_chat",
                              .anchors = kAnchors,
                              .rules = {.keys = kKeys, .loss_span = Reading::Span::kInterval, .step_in_epoch = true}};

}  // namespace

std::unique_ptr<Format> make_deepspeed_chat() {
  return make_record_format(kSpec);
}

}  // namespace scalewatch::logimport
