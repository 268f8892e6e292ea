// The forward pass made NaN or Inf: where to look.
#include <fmt/core.h>

#include "server/domain/advice/advice.h"
#include "server/domain/text.h"

namespace scalewatch::domain {

std::optional<Advice> advise_trace_activation(const AdviceContext& context) {
  if (!context.rule("NonFiniteActivation") || !context.finding.blame) return std::nullopt;
  const Blame& blame = *context.finding.blame;
  if (blame.where == "forward" && context.kind() != "nan") {
    return Advice{
        "trace_activation",
        fmt::format("the loss scale cannot help: {} overflowed in the forward pass at step {}. Where fp32 there is too "
                    "slow, clamp it below the largest value of the format or train in bf16",
                    blame.tensor, blame.step),
        0.5};
  }
  if (blame.where == "forward") {
    return Advice{"trace_activation",
                  fmt::format("{} is the first NaN of step {}, and what goes into it is finite as far as it is measured: look "
                              "at that operation (0/0, log or sqrt of a negative, softmax over a row that is masked whole); "
                              "at the very first step on one GPU model only, suspect its half-precision kernels",
                              blame.tensor, blame.step),
                  0.7};
  }
  return Advice{"trace_activation", fmt::format("the activations only show it: it began in {}", origin_text(blame)), 0.4};
}

}  // namespace scalewatch::domain
