// A tensor needs more range than fp16 has, or uses nearly all of it.
#include <fmt/core.h>

#include "server/domain/advice/advice.h"
#include "server/domain/text.h"

namespace scalewatch::domain {

std::optional<Advice> advise_fit_range(const AdviceContext& context) {
  if (!context.rule_is_one_of("RangeTooWide", "LowHeadroom", "GradientUnderflow") || context.tensor().empty())
    return std::nullopt;
  const std::string tensor = origin_text(*context.finding.blame);
  if (context.rule("RangeTooWide")) {
    return Advice{"fit_range",
                  fmt::format("no scale fits both ends of {}: normalise what goes into it, split the sum or product that makes "
                              "it, or compute it in fp32",
                              tensor),
                  0.7};
  }
  if (context.rule("LowHeadroom")) {
    if (context.finding.blame->role == Role::kGradient) {
      return Advice{"fit_range",
                    fmt::format("{} is about to overflow under a scale that never falls: halve the scale, or use a dynamic "
                                "scaler",
                                tensor),
                    0.7};
    }
    return Advice{
        "fit_range",
        fmt::format("{} is within {:.1f} octaves of overflow, and no loss scale helps in the forward pass: compute it "
                    "in fp32, or make it smaller (normalise before it, attention logits divided before the product)",
                    tensor, context.evidence("headroom").value_or(0)),
        0.7};
  }
  return Advice{
      "fit_range",
      fmt::format("if training suffers, compute {} in fp32: its small elements are lost in the narrow format", tensor), 0.3};
}

}  // namespace scalewatch::domain
