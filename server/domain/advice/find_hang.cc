// A run that hangs: where to look first.
#include <fmt/core.h>

#include "server/domain/advice/advice.h"
#include "server/domain/text.h"

namespace scalewatch::domain {

std::optional<Advice> advise_find_hang(const AdviceContext& context) {
  if (!context.rule("RunStalled")) return std::nullopt;
  const auto& ranks = context.finding.ranks;
  std::string where = "each rank";
  if (!ranks.empty()) {
    where = ranks_text(ranks);
    const RankInfo* rank = context.run.rank(ranks.front());
    if (rank != nullptr && !rank->host.empty()) {
      where +=
          fmt::format(" first (host {}{})", rank->host, rank->pid != 0 ? fmt::format(", pid {}", rank->pid) : std::string());
    }
  }
  return Advice{"find_hang",
                fmt::format("look at what {} waits for (py-spy dump --pid, or gdb): the data loader, a collective that not all "
                            "ranks have entered, or a GPU error; where only some ranks skipped a step the others wait for ever",
                            where),
                ranks.empty() ? 0.5 : 0.7};
}

}  // namespace scalewatch::domain
