#include <algorithm>
#include <chrono>
#include <utility>

#include "scalewatch/v1/alerts.pb.h"
#include "server/history/feed_state.h"
#include "server/history/shared_history.h"
#include "server/history/sqlite_store.h"

namespace scalewatch::history {

namespace {

constexpr std::size_t kMaxAlerts = 10'000;

// Also another run of that name, which began here and went on elsewhere before it was shared: it would be found by the name.
void remove_older(const std::string& run_uid, const std::string& name, SqliteStore& from) {
  from.remove_run(run_uid);
  while (const auto other = from.find_named(name)) from.remove_run(other->run_uid);
}

// What this server told of the run before another one had it, and could not share: once the run goes on here, these alerts are
// compared with its findings as all others are.
std::vector<engine::AlertRow> untold_ends(SharedHistory& shared, const std::string& run_uid, SqliteStore& from) {
  std::vector<engine::AlertRow> kept;
  for (engine::AlertRow& row : from.list({run_uid, {}, 0}, std::nullopt, kMaxAlerts)) {
    v1::Alert alert;
    if (alert.ParseFromString(row.alert) && alert.pages_size() > 0 && alert.resolved_ms() == 0) kept.push_back(std::move(row));
  }
  if (kept.empty()) return kept;
  const auto there = shared.alert_ids(run_uid);
  std::erase_if(kept, [&](const engine::AlertRow& row) { return there.contains(row.id); });
  return kept;
}

std::int64_t now_ms() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

}  // namespace

bool import_run(SharedHistory& shared, const std::string& run_uid, std::uint64_t term, SqliteStore& into) {
  // Before the rows are read: what comes later is not below them.
  const auto floors = shared.floors(run_uid);
  std::uint64_t pos = 0;
  std::map<FeedState::Stream, std::uint64_t> seqs;
  auto kept = untold_ends(shared, run_uid, into);
  bool removed = false;
  if (term == 0) into.retention().comes_back(run_uid);
  const bool found = shared.load_run(run_uid, [&](engine::CommitBatch&& batch) {
    if (!removed) in_own_store([&] { remove_older(run_uid, batch.runs.empty() ? run_uid : batch.runs.front().name, into); });
    removed = true;
    for (const auto& row : batch.incarnations) seqs[{run_uid, row.rank, row.incarnation}] = row.durable_seq;
    for (const auto& row : batch.reports) pos = std::max(pos, row.pos);
    for (const auto& row : batch.inputs) pos = std::max(pos, row.pos);
    for (const auto& row : batch.snapshots) pos = std::max(pos, row.pos);
    // The store keeps the newest change by its time, and the clock of an earlier owner may have been ahead of this one.
    for (auto& row : batch.alerts) row.changed_ms = std::min(row.changed_ms, now_ms());
    for (auto& row : std::exchange(kept, {})) batch.alerts.push_back(std::move(row));  // with the first: they are gone now
    in_own_store([&] { into.commit(batch); });
  });
  if (found) in_own_store([&] { FeedState(into).imported(run_uid, term, pos, floors, seqs); });
  return found;
}

}  // namespace scalewatch::history
