// Activations are fine and the loss is not.
#include <fmt/core.h>

#include "server/domain/advice/advice.h"
#include "server/domain/text.h"

namespace scalewatch::domain {

std::optional<Advice> advise_fp32_loss(const AdviceContext& context) {
  if (context.where() != "loss") return std::nullopt;
  // A log shows no activations. Under a scaler the narrow format is the first suspect.
  const bool log = context.run.from_log;
  return Advice{
      "fp32_loss",
      fmt::format("compute the loss in fp32: it was {}{}; softmax, log-softmax, logs, exps, angles (acos) and long sums "
                  "need float() inputs, and logs and divisions an eps or a clamp",
                  kind_text(context.kind()), log ? "" : " while no activation that was sent is"),
      log && context.narrow_format() ? 0.66 : 0.6};
}

}  // namespace scalewatch::domain
