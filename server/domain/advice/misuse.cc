// The right order of calls, for each kind of wrong use.
#include <fmt/core.h>

#include "server/domain/advice/advice.h"
#include "server/domain/rules/misuse_kinds.h"
#include "server/domain/text.h"

namespace scalewatch::domain {

std::optional<Advice> advise_misuse(const AdviceContext& context) {
  if (!context.rule("Misuse")) return std::nullopt;
  const std::string& kind = context.finding.subject;
  std::string text(misuse_advice(kind));
  if (text.empty()) {
    return Advice{"scaler_order",
                  "use the scaler in this order: scale(loss).backward(), unscale_(optimizer), clip, step(optimizer), update(), "
                  "each once an iteration",
                  0.4};
  }
  const auto norm = context.evidence("true_norm");
  if (kind == "clip_before_unscale" && norm) {
    text += fmt::format(" (the true norm is held at {} now)", number_text(*norm));
  }
  return Advice{"scaler_order", std::move(text), context.finding.severity == Severity::kInfo ? 0.6 : 0.9};
}

}  // namespace scalewatch::domain
