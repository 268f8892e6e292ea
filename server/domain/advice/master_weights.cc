// Narrow weights lose the updates: keep an fp32 copy.
#include <fmt/core.h>

#include <cmath>

#include "server/domain/advice/advice.h"
#include "server/domain/text.h"

namespace scalewatch::domain {

std::optional<Advice> advise_master_weights(const AdviceContext& context) {
  if (!context.rule("LostUpdates")) return std::nullopt;
  return Advice{"master_weights",
                fmt::format("keep the parameters in fp32 (autocast computes in the narrow format by itself), or an fp32 master "
                            "copy in the optimizer; otherwise the learning rate must be {} or more for {} to move",
                            number_text(context.run.learning_rate().value_or(0) *
                                        std::exp2(context.evidence("octaves_below").value_or(0))),
                            context.tensor()),
                0.8};
}

}  // namespace scalewatch::domain
