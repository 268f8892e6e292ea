// Activations are fine and the loss is not.
#include <fmt/core.h>

#include "server/domain/advice/advice.h"
#include "server/domain/text.h"

namespace scalewatch::domain {

std::optional<Advice> advise_fp32_loss(const AdviceContext& context) {
  if (context.where() != "loss") return std::nullopt;
  return Advice{"fp32_loss",
                fmt::format("compute the loss in fp32: it was {} while no activation that was sent is; log-softmax, logs, exps "
                            "and long sums need "
                            "float() inputs, and logs and divisions an eps or a clamp",
                            kind_text(context.kind())),
                0.6};
}

}  // namespace scalewatch::domain
