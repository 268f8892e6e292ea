// The data is the first suspect when the input or the loss went non-finite first.
#include <fmt/core.h>

#include "server/domain/advice/advice.h"
#include "server/domain/text.h"

namespace scalewatch::domain {

std::optional<Advice> advise_look_at_data(const AdviceContext& context) {
  if (context.rule("LossSpike")) {
    return Advice{
        "look_at_data",
        fmt::format(
            "look at the data of step {} and what changed there (a new shard, new rollouts, an epoch's end): one "
            "bad batch makes a spike, a spike that stays is the learning rate; after new rollouts clip the value loss and "
            "normalise the rewards",
            context.finding.first_step),
        0.45};
  }
  const auto where = context.where();
  if (context.rule("NonFiniteApplied") && context.run.from_log && (where.empty() || where == "backward")) {
    return Advice{"look_at_data",
                  fmt::format("keep the batches up to step {} and run them again: what comes at the same step each time is in "
                              "the data, what comes on one kind of GPU alone is in its kernels",
                              context.finding.first_step),
                  0.4};
  }
  const bool loss_only = where == "loss";
  if (where != "input" && !loss_only) return std::nullopt;
  const auto& blame = *context.finding.blame;
  const std::string rank =
      blame.rank_of_origin && context.run.world_size > 1 ? fmt::format(" on rank {}", *blame.rank_of_origin) : std::string();
  if (where == "input") {
    return Advice{"look_at_data",
                  fmt::format("look at the data of step {}{}: the batch itself held NaN or Inf; drop or repair such samples "
                              "before they reach the model",
                              blame.step, rank),
                  0.95};
  }
  return Advice{
      "look_at_data",
      fmt::format(
          "look at the data of step {}{}: the loss went {} with nothing before it known to be bad; labels out of range, empty "
          "targets and NaN in the inputs do that",
          blame.step, rank, kind_text(blame.kind)),
      0.65};
}

}  // namespace scalewatch::domain
