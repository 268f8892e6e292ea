// Finite gradients went into the optimizer, and what came out is not finite.
#include <fmt/core.h>

#include "server/domain/advice/advice.h"
#include "server/domain/text.h"

namespace scalewatch::domain {

std::optional<Advice> advise_optimizer_precision(const AdviceContext& context) {
  if (context.where() != "optimizer") return std::nullopt;
  return Advice{"optimizer_precision",
                fmt::format("keep master weights and the optimizer's state in fp32, and eps at 1e-4 or more where they must be "
                            "fp16: gradients were "
                            "finite and {} is not after the update",
                            origin_text(*context.finding.blame)),
                0.85};
}

}  // namespace scalewatch::domain
