// One rank alone is non-finite before the reduction, again and again.
#include <fmt/core.h>

#include "server/domain/advice/advice.h"
#include "server/domain/text.h"

namespace scalewatch::domain {

std::optional<Advice> advise_suspect_gpu(const AdviceContext& context) {
  constexpr std::uint32_t kOften = 3;
  if (!context.skips() && !context.rule("NonFiniteLoss")) return std::nullopt;
  for (const auto& [number, rank] : context.run.ranks) {
    const std::uint32_t times = context.run.lone_attempts(number);
    if (times < kOften || times * std::size_t{2} <= context.run.blames.size()) continue;
    return Advice{"suspect_gpu",
                  fmt::format("suspect the GPU of rank {}{}{}, or the data that only it reads: it alone was non-finite before "
                              "the reduction in {} of the "
                              "last {} bad attempts; move the rank to another GPU and look whether the fault follows",
                              number, rank.host.empty() ? "" : " on host " + rank.host,
                              rank.gpu_uuid.empty() ? "" : " (" + rank.gpu_uuid + ")", times, context.run.blames.size()),
                  0.7};
  }
  return std::nullopt;
}

}  // namespace scalewatch::domain
