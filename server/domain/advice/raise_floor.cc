// The scaler can't go lower: values are too large for fp16 even unscaled.
#include <fmt/core.h>

#include "server/domain/advice/advice.h"
#include "server/domain/text.h"

namespace scalewatch::domain {

std::optional<Advice> advise_raise_floor(const AdviceContext& context) {
  if (!context.rule("ScaleAtMinimum")) return std::nullopt;
  const auto scale = context.evidence("scale");
  const std::string at = scale ? fmt::format(" (the scale is {})", scale_text(*scale)) : std::string();
  if (context.kind() == "nan") {
    return Advice{
        "normalise_loss",
        "lowering the scale can't remove a NaN: look at the first batch, padding and masked rows, and at divisions and "
        "logs of 0 in the loss",
        0.6};
  }
  return Advice{
      "normalise_loss",
      fmt::format("no smaller scale is left{}: use a mean in place of a sum in the loss, or divide it by a constant, and "
                  "compute it in fp32; with several losses or optimizers give each its own scaler",
                  at),
      0.55};
}

}  // namespace scalewatch::domain
