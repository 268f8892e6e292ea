#include "server/history/clickhouse/feed_runs.h"

#include <algorithm>

namespace scalewatch::clickhouse {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kRowEvery{2000};  // a run's row is sent at most this often
constexpr milliseconds kSnapshotEvery{10'000};
constexpr milliseconds kForgetAfter{600'000};  // a quiet run is looked up again when it speaks

void note_log(FedRun& run) {
  run.log = run.row = true;
  if (!run.since) run.since = FedRun::SteadyClock::now();
}

}  // namespace

void FeedRuns::behind(const std::string& run_uid) {
  FedRun& run = runs_[run_uid];
  run.fed = true;
  note_log(run);
}

void FeedRuns::committed(const engine::CommitBatch& batch) {
  const auto run_of = [&](const std::string& run_uid) -> FedRun& {
    FedRun& run = runs_[run_uid];
    if (!claims_) run.fed = true;
    return run;
  };
  for (const auto& row : batch.reports) {
    FedRun& run = run_of(row.run_uid);
    run.bytes += row.payload.size();
    note_log(run);
  }
  for (const auto& row : batch.inputs) note_log(run_of(row.run_uid));
  for (const auto& row : batch.runs) run_of(row.run_uid).row = true;
  for (const auto& row : batch.alerts) {
    if (!row.run_uid.empty()) run_of(row.run_uid).row = true;
  }
}

void FeedRuns::own(const std::string& run_uid, const std::string& name, std::uint64_t term) {
  FedRun& run = runs_[run_uid];
  run.name = name;
  run.term = term;
  run.fed = true;
  run.progress.reset();
  note_log(run);
}

void FeedRuns::disown(const std::string& run_uid) {
  FedRun& run = runs_[run_uid];
  run.fed = false;
  run.since.reset();
  run.bytes = 0;
}

void FeedRuns::row_is_due(const std::string& run_uid) {
  FedRun& run = runs_[run_uid];
  if (!claims_) run.fed = true;
  run.row = true;
  run.row_at = run.snapshot_at = {};
}

void FeedRuns::hurry(const std::string& run_uid) {
  if (const auto found = runs_.find(run_uid); found != runs_.end()) found->second.in_a_hurry = true;
}

void FeedRuns::hurry_all() {
  for (auto& [run_uid, run] : runs_) run.in_a_hurry = true;
}

bool FeedRuns::settled(const std::string& run_uid) const {
  const auto found = runs_.find(run_uid);
  return found == runs_.end() || found->second.settled();
}

bool FeedRuns::row_waits(const std::string& run_uid) const {
  const auto found = runs_.find(run_uid);
  return found != runs_.end() && found->second.fed && (found->second.row || found->second.row_leaves);
}

bool FeedRuns::all_settled() const {
  return std::all_of(runs_.begin(), runs_.end(), [](const auto& entry) { return !entry.second.fed || entry.second.settled(); });
}

bool FeedRuns::hurries() const {
  return std::any_of(runs_.begin(), runs_.end(), [](const auto& entry) {
    return entry.second.in_a_hurry && entry.second.fed && (entry.second.log || entry.second.row);
  });
}

bool FeedRuns::has_waiting(std::uint64_t bytes) const {
  std::uint64_t all = 0;
  for (const auto& [run_uid, run] : runs_) {
    if (run.fed && run.log) all += run.bytes;
  }
  return all >= bytes;
}

FeedRuns::Waiting FeedRuns::waiting() const {
  Waiting all;
  for (const auto& [run_uid, run] : runs_) {
    all.bytes += run.bytes;
    if (run.since && (!all.since || *run.since < *all.since)) all.since = run.since;
  }
  return all;
}

std::vector<std::string> FeedRuns::due() const {
  std::vector<std::string> due;
  for (const auto& [run_uid, run] : runs_) {
    if (run.fed && run.log) due.push_back(run_uid);
  }
  return due;
}

void FeedRuns::leaves(const std::string& run_uid) {
  FedRun& run = runs_[run_uid];
  run.log = false;
  run.log_leaves = true;
}

void FeedRuns::stays(const std::string& run_uid, bool taken, bool more) {
  FedRun& run = runs_[run_uid];
  run.log_leaves = taken;
  run.log = run.log || more;
  if (taken || run.log) return;
  run.since.reset();  // nothing was there
  run.bytes = 0;
}

void FeedRuns::came_back(const std::string& run_uid, bool known) {
  FedRun& run = runs_[run_uid];
  run.log = true;
  run.log_leaves = false;
  if (!known) run.progress.reset();
}

void FeedRuns::sent(const std::string& run_uid, std::uint64_t pos, std::uint64_t bytes) {
  FedRun& run = runs_[run_uid];
  run.progress = {pos, pos};
  run.bytes -= std::min(run.bytes, bytes);
  run.since = run.log ? std::optional(SteadyClock::now()) : std::nullopt;
  if (!run.log) run.bytes = 0;
  run.log_leaves = false;
}

std::vector<DueRow> FeedRuns::due_rows(SteadyClock::time_point now, std::uint64_t many_bytes, bool& more) {
  std::vector<DueRow> due;
  more = false;
  for (auto& [run_uid, run] : runs_) {
    more = more || (run.fed && run.log && run.bytes >= many_bytes);
    if (!run.fed || !run.row) continue;
    const bool hurries = run.in_a_hurry && !run.log;
    if (!hurries && now - run.row_at < kRowEvery) continue;
    due.push_back(
        {run_uid, run.term, run.progress ? run.progress->pos : 0, hurries || now - run.snapshot_at >= kSnapshotEvery});
    run.row = false;
    run.row_leaves = true;
  }
  return due;
}

void FeedRuns::row_sent(const DueRow& row, SteadyClock::time_point now) {
  FedRun& run = runs_[row.run_uid];
  run.row_at = now;
  run.row_leaves = false;
  if (row.snapshot) run.snapshot_at = now;
  if (!run.log && !run.row) run.in_a_hurry = false;
}

void FeedRuns::row_stays(const std::string& run_uid) {
  runs_[run_uid].row = true;
  runs_[run_uid].row_leaves = false;
}

void FeedRuns::forget_quiet(SteadyClock::time_point now) {
  std::erase_if(runs_, [&](const auto& entry) {
    const FedRun& run = entry.second;
    // What is claimed is fed until it is disowned; of anything else that is to be claimed nothing is here that a claim does not
    // make due.
    if (claims_) return !run.fed && !run.since && !run.log_leaves && !run.row_leaves;
    return run.settled() && now - run.row_at > kForgetAfter;
  });
}

}  // namespace scalewatch::clickhouse
