// Range is the trouble: a format with the range of fp32 has none.
#include <fmt/core.h>

#include "server/domain/advice/advice.h"
#include "server/domain/text.h"

namespace scalewatch::domain {

std::optional<Advice> advise_bf16(const AdviceContext& context) {
  if (!context.narrow_format() || context.kind() == "nan" || context.where() == "input" || context.where() == "weights") {
    return std::nullopt;
  }
  if (!context.rule_is_one_of("FrequentSkippedSteps", "ConsecutiveSkips", "NeverApplied", "ScaleCollapse", "ScaleVanished",
                              "ScaleAtMinimum")) {
    return std::nullopt;
  }
  return Advice{"use_bf16",
                "where the GPU has it (compute capability 8.0 and later) train in bf16: it has the range of fp32 and needs no "
                "loss scaler",
                0.35};
}

}  // namespace scalewatch::domain
