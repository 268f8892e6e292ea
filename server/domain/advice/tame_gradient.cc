// One gradient rules the norm: what that does to clipping.
#include <fmt/core.h>

#include "server/domain/advice/advice.h"
#include "server/domain/text.h"

namespace scalewatch::domain {

std::optional<Advice> advise_tame_gradient(const AdviceContext& context) {
  if (!context.rule("DominantGradient")) return std::nullopt;
  return Advice{"tame_gradient",
                fmt::format("usual for tied embeddings and heads; where clipping is active, {} scales all other updates down: "
                            "clip it on its own, or look at its initialisation",
                            context.tensor()),
                0.4};
}

}  // namespace scalewatch::domain
