// A process or its machine is gone.
#include <fmt/core.h>

#include "server/domain/advice/advice.h"
#include "server/domain/text.h"

namespace scalewatch::domain {

std::optional<Advice> advise_look_at_hosts(const AdviceContext& context) {
  if (!context.rule_is_one_of("RankLost", "EndedWithoutGoodbye")) return std::nullopt;
  std::string where;
  if (!context.finding.ranks.empty()) {
    if (const RankInfo* rank = context.run.rank(context.finding.ranks.front())) {
      where = fmt::format(" of rank {}{}{}{}", rank->rank, rank->host.empty() ? "" : " on host " + rank->host,
                          rank->pid != 0 ? fmt::format(", pid {}", rank->pid) : std::string(),
                          rank->gpu_uuid.empty() ? "" : ", GPU " + rank->gpu_uuid);
    }
  } else {
    where = " of the run";
  }
  return Advice{
      "look_at_hosts",
      fmt::format("look at the process{}: killed for memory (dmesg), a GPU error (Xid in the kernel log), or the network{}",
                  where, context.rule("RankLost") ? "; the other ranks will hang in their next collective" : ""),
      context.rule("RankLost") ? 0.7 : 0.4};
}

}  // namespace scalewatch::domain
