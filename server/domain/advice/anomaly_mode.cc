// A NaN does not go away with a smaller scale: find the operation that makes it.
#include <fmt/core.h>

#include "server/domain/advice/advice.h"
#include "server/domain/text.h"

namespace scalewatch::domain {

std::optional<Advice> advise_anomaly_mode(const AdviceContext& context) {
  if (context.kind() != "nan") return std::nullopt;
  if (!context.skips() && !context.rule("NonFiniteLoss")) return std::nullopt;
  const auto where = context.where();
  if (where != "forward" && where != "backward" && where != "loss") return std::nullopt;
  return Advice{
      "anomaly_mode",
      fmt::format(
          "a smaller scale can't remove a NaN: run step {} again in anomaly mode (torch.autograd.set_detect_anomaly) to "
          "find the operation behind {}, then switch it off, it costs much; look for log, sqrt and division of "
          "values near 0 and for softmax over rows that are masked whole",
          context.finding.last_step, origin_text(*context.finding.blame)),
      0.5};
}

}  // namespace scalewatch::domain
