// One layer overflows the narrow format: compute it in a wider one.
#include <fmt/core.h>

#include "server/domain/advice/advice.h"
#include "server/domain/text.h"

namespace scalewatch::domain {

std::optional<Advice> advise_fp32_layer(const AdviceContext& context) {
  if (context.tensor().empty() || context.kind() == "nan") return std::nullopt;
  // A log that names no format: what overflowed in the forward pass was narrow.
  const bool untold = context.run.from_log && context.run.compute_dtype == DType::kUnspecified && context.where() == "forward";
  if (!context.narrow_format() && !untold) return std::nullopt;
  if (context.rule("NonFiniteWeights")) return std::nullopt;
  // A scaler that probes for the largest scale overflows somewhere each time: nothing is wrong with that layer.
  if (context.rule("NonFiniteGradient") && context.finding.severity < Severity::kWarning) return std::nullopt;
  const bool forward = context.where() == "forward";
  if (!forward && context.where() != "backward") return std::nullopt;
  const std::string& tensor = context.tensor();
  const auto dot = tensor.rfind('.');
  // The module: without the name of its weight or bias.
  const bool is_parameter = context.finding.blame->role == Role::kGradient && dot != std::string::npos;
  const std::string layer = is_parameter ? tensor.substr(0, dot) : tensor;
  return Advice{
      "fp32_layer",
      fmt::format(
          "compute {} in fp32 (a block with autocast(enabled=False) and .float() inputs): its {} was the first to overflow "
          "in the {} pass{}",
          layer, role_text(context.finding.blame->role), forward ? "forward" : "backward",
          forward ? ", and no loss scale helps there" : ""),
      context.grew() ? 0.5
      : forward      ? 0.8
                     : 0.55};
}

}  // namespace scalewatch::domain
