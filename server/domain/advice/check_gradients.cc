// Nothing overflows because nothing is there: the loss does not reach the parameters.
#include <fmt/core.h>

#include "server/domain/advice/advice.h"
#include "server/domain/text.h"

namespace scalewatch::domain {

std::optional<Advice> advise_check_gradients(const AdviceContext& context) {
  if (context.rule("LossUnchanged")) {
    const auto lr = context.evidence("lr");
    return Advice{"check_gradients",
                  fmt::format("check that steps reach the weights: gradients that are not zero, requires_grad, the optimizer "
                              "holding the model's own parameters, weights that differ before and after a step, clipping after "
                              "unscale_; then try a learning rate 10 times larger{}",
                              lr ? fmt::format(" (it is {})", number_text(*lr)) : std::string()),
                  0.6};
  }
  if (!context.rule("ScaleRunaway")) return std::nullopt;
  const auto scale = context.evidence("scale");
  return Advice{"check_gradients",
                fmt::format("look for a loss that is constant, zero or detached from the parameters: a scale of {} overflows "
                            "nothing only where gradients are next to nothing; then cap the scale (2^24 is plenty) and set "
                            "growth_interval to 2000 or more",
                            scale ? scale_text(*scale) : "that size"),
                0.7};
}

}  // namespace scalewatch::domain
