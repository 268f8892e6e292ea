// Ranks decide apart from each other.
#include <fmt/core.h>

#include "server/domain/advice/advice.h"
#include "server/domain/text.h"

namespace scalewatch::domain {

std::optional<Advice> advise_reduce_found_inf(const AdviceContext& context) {
  const bool drift = context.rule("ScalePolicyMismatch") && context.finding.subject.ends_with("/rank drift");
  if (!context.rule("RankDisagreement") && !drift) return std::nullopt;
  if (context.finding.subject == "replicas") {
    return Advice{"broadcast_parameters",
                  fmt::format("stop and load the same checkpoint on all ranks (or broadcast parameters from rank 0): {}. Then "
                              "look for steps that "
                              "some ranks skipped, gradients that are not reduced, and seeds that differ",
                              context.finding.summary),
                  0.85};
  }
  if (context.evidence("scale_of_most")) {
    return Advice{"reduce_scale",
                  fmt::format("all-reduce the scale (minimum) after update(), and start every rank from the same scale; growth "
                              "counts each rank's own steps, so with uneven inputs (model.join) drop the last batches that not "
                              "all ranks have; {} must reload or receive the weights of the others, they have drifted apart",
                              context.finding.ranks.empty() ? std::string("ranks") : ranks_text(context.finding.ranks)),
                  0.85};
  }
  return Advice{"reduce_found_inf",
                fmt::format("reduce found_inf over all ranks (maximum) before step() and update(), and start every rank from "
                            "the same scale; {} must "
                            "reload or receive the weights of the others, they have drifted apart",
                            context.finding.ranks.empty() ? std::string("ranks") : ranks_text(context.finding.ranks)),
                0.9};
}

}  // namespace scalewatch::domain
