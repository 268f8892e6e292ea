// The optimizer divides by a second moment that underflowed: wider state, or a larger eps.
#include <fmt/core.h>

#include "server/domain/advice/advice.h"
#include "server/domain/text.h"

namespace scalewatch::domain {

std::optional<Advice> advise_optimizer_state(const AdviceContext& context) {
  if (!context.rule("OptimizerStateUnderflow")) return std::nullopt;
  if (const auto eps = context.evidence("eps")) {
    return Advice{
        "optimizer_state",
        fmt::format("set eps to 1e-4 or keep the optimizer state in fp32: eps {} is zero in the format that the state "
                    "has, so that the first update divides by zero",
                    number_text(*eps)),
        0.9};
  }
  return Advice{"optimizer_state",
                fmt::format("keep the state of the optimizer and its master weights in fp32 ({} is zero where the gradient is "
                            "not), or set eps to 1e-4",
                            context.tensor()),
                0.85};
}

}  // namespace scalewatch::domain
