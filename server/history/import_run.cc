#include <algorithm>

#include "server/history/feed_state.h"
#include "server/history/shared_history.h"
#include "server/history/sqlite_store.h"

namespace scalewatch::history {

bool import_run(SharedHistory& shared, const std::string& run_uid, SqliteStore& into) {
  // Before the rows are read: what comes later is not below them.
  const auto floors = shared.floors(run_uid);
  std::uint64_t pos = 0;
  std::map<FeedState::Stream, std::uint64_t> seqs;
  bool removed = false;
  const bool found = shared.load_run(run_uid, [&](engine::CommitBatch&& batch) {
    if (!removed) into.remove_run(run_uid);
    removed = true;
    for (const auto& row : batch.incarnations) seqs[{run_uid, row.rank, row.incarnation}] = row.durable_seq;
    for (const auto& row : batch.reports) pos = std::max(pos, row.pos);
    for (const auto& row : batch.inputs) pos = std::max(pos, row.pos);
    for (const auto& row : batch.snapshots) pos = std::max(pos, row.pos);
    into.commit(batch);
  });
  if (found) FeedState(into).imported(run_uid, pos, floors, seqs);
  return found;
}

}  // namespace scalewatch::history
