// The same step again and again: what is summed up overflows, not what one batch gives.
#include "server/domain/advice/advice.h"

namespace scalewatch::domain {

std::optional<Advice> advise_step_frozen(const AdviceContext& context) {
  if (!context.rule("StepFrozen")) return std::nullopt;
  return Advice{"step_frozen",
                "divide the loss by the number of accumulation steps before backward, and accumulate and reduce gradients in "
                "fp32: a sum over many micro-batches overflows though each loss is finite; if the trainer repeats the batch of "
                "a skipped step, let it go on to the next",
                0.7};
}

}  // namespace scalewatch::domain
