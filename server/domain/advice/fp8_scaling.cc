// A cast to fp8 clamps: the scaling factor is too large for the values.
#include <fmt/core.h>

#include "server/domain/advice/advice.h"
#include "server/domain/text.h"

namespace scalewatch::domain {

std::optional<Advice> advise_fp8_scaling(const AdviceContext& context) {
  if (!context.rule("Fp8Saturation")) return std::nullopt;
  return Advice{"fp8_scaling",
                fmt::format("give {} more room: margin 1 or 2 in the scaling recipe, a longer amax history, or scaling by the "
                            "current amax; else e5m2 or bf16 for this tensor",
                            context.tensor()),
                0.7};
}

}  // namespace scalewatch::domain
