// Every rank was finite and their sum was not.
#include <fmt/core.h>

#include "server/domain/advice/advice.h"
#include "server/domain/text.h"

namespace scalewatch::domain {

std::optional<Advice> advise_reduce_in_fp32(const AdviceContext& context) {
  if (context.where() != "reduction") return std::nullopt;
  return Advice{"reduce_in_fp32",
                fmt::format("divide gradients by the {} ranks before the all-reduce, or reduce in fp32: every rank's own "
                            "values were finite and {} "
                            "was not",
                            context.run.world_size, origin_text(*context.finding.blame)),
                0.9};
}

}  // namespace scalewatch::domain
