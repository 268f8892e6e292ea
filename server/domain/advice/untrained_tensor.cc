// A parameter gets no gradient: it is not in use, or cut off.
#include <fmt/core.h>

#include "server/domain/advice/advice.h"
#include "server/domain/text.h"

namespace scalewatch::domain {

std::optional<Advice> advise_untrained_tensor(const AdviceContext& context) {
  if (!context.rule("AllZeroGradient")) return std::nullopt;
  return Advice{"untrained_tensor",
                fmt::format("find out why nothing reaches {}: a branch that is never taken, a detach() or no_grad before it, a "
                            "dead ReLU, or a loss term that is off; if that is meant, take it out of the optimizer",
                            context.tensor()),
                0.6};
}

}  // namespace scalewatch::domain
