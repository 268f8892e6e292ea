// The server itself is in trouble: what to give it.
#include "server/domain/advice/advice.h"

namespace scalewatch::domain {

std::optional<Advice> advise_server_behind(const AdviceContext& context) {
  if (context.rule("HistoryDegraded")) {
    return Advice{
        "server_behind",
        "make room on the disk of scalewatchd's data_dir, or bring it back; nothing that was acknowledged is lost and "
        "the server goes on by itself, but clients keep what it can't store only as long as their buffer or spool lasts",
        0.8};
  }
  if (!context.rule("IngestLag")) return std::nullopt;
  return Advice{"server_behind",
                "look at scalewatchd's processor time and at its disk: if one of both is used up, give it more, or let clients "
                "send full records less often (sampling, report_every); if neither is, another process holds the disk",
                0.6};
}

}  // namespace scalewatch::domain
