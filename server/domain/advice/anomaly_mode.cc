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
  // It has been run, and named a function: that of a forward operation, with this behind its name.
  constexpr std::string_view kBackward = "Backward";
  const std::string& named = context.tensor();
  if (const auto end = named.rfind(kBackward);
      end != std::string::npos && end > 0 && named.size() - end <= kBackward.size() + 2) {
    return Advice{"anomaly_mode",
                  fmt::format("look at the forward call of {} that the trace above the error shows: what goes into it has no "
                              "finite gradient there (log, sqrt, norm, pow or division at 0, a where() over a branch that is "
                              "NaN); add an eps or a clamp inside, or compute it in fp32",
                              named.substr(0, end)),
                  0.75};
  }
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
