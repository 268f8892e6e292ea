// Alerts of runs that come from another server of the fleet, or go to one, or are read back.
//
// Where a run is live, its open alerts are those of its open findings. What stands in a store may be of another moment than the
// run's log: reconcile() makes them meet.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>
#include <utility>

#include "server/alerting/alert_book.h"
#include "server/alerting/alert_text.h"
#include "server/alerting/sink.h"

namespace scalewatch::alerting {

namespace {

constexpr std::size_t kPage = 1000;
constexpr std::size_t kMaxAlerts = 10'000;         // of a run
constexpr std::int64_t kRepeatedFor = 5 * 60'000;  // what was told so lately may not have been delivered

// The server before noted that it would tell this; whether it still did so is not known. The same keys again. Its clock may be
// hours away from this one: it is as old as it is beside the run's newest report.
void repeat(const v1::Alert& alert, std::int64_t now, std::int64_t heard_ms, engine::CommitBatch& batch) {
  const auto is_recent = [&](std::int64_t time_ms) {
    if (time_ms == 0) return false;
    return std::llabs(now - time_ms) < kRepeatedFor || (heard_ms != 0 && time_ms > heard_ms - kRepeatedFor);
  };
  const bool resolved = alert.state() == v1::ALERT_STATE_RESOLVED;
  for (const v1::Page& page : alert.pages()) {
    if (resolved && is_recent(alert.resolved_ms())) {
      batch.outbox.push_back(outbox_row(page.sink(), alert, std::string(kResolved), now));
    } else if (!resolved && page.pages() == 1 && is_recent(page.time_ms())) {
      batch.outbox.push_back(outbox_row(page.sink(), alert, std::string(kFiring), now));
    }
  }
}

// By leave_run(), and not by its finding's end.
bool was_left(const v1::Alert& alert) {
  return alert.state() == v1::ALERT_STATE_RESOLVED && alert.resolved_ms() == 0;
}

void open_again(AlertEntry& entry, std::int64_t now) {
  entry.alert.set_resolved_ms(0);
  entry.alert.mutable_finding()->set_open(true);
  entry.alert.set_state(v1::ALERT_STATE_FIRING);
  note(entry.alert, now, v1::ALERT_STATE_FIRING, {}, "open again: its run goes on here");
  entry.changed_ms = std::max(now, entry.changed_ms + 1);
}

template <class Visit>
void visit(engine::AlertReader& reader, const std::string& run_uid, std::vector<std::int32_t> states, const Visit& each) {
  const engine::AlertReader::Filter filter{run_uid, std::move(states), 0};
  std::optional<engine::AlertReader::Cursor> after;
  for (std::size_t seen = 0; seen < kMaxAlerts;) {
    const std::vector<engine::AlertRow> rows = reader.list(filter, after, kPage);
    for (const engine::AlertRow& row : rows) each(row);
    if (rows.size() < kPage) return;
    seen += rows.size();
    after = {rows.back().severity, rows.back().fired_ms, rows.back().id};
  }
}

}  // namespace

engine::CommitBatch AlertBook::take_run(const std::string& run_uid, std::int64_t heard_ms) {
  engine::CommitBatch batch;
  std::lock_guard lock(mutex_);
  const Now at = now();
  pager_.forget(run_uid);
  RunAlerts& alerts = runs_[run_uid];
  alerts.clear();
  visit(*reader_, run_uid, {}, [&](const engine::AlertRow& row) {
    AlertEntry entry;
    if (!entry.alert.ParseFromString(row.alert)) return note_unreadable(row.id);
    entry.changed_ms = row.changed_ms;
    // What an owner closed when it gave the run up may have reached the shared history before the next owner's alerts did.
    if (was_left(entry.alert)) {
      open_again(entry, at.wall);
      stage_row(entry, batch);
    }
    repeat(entry.alert, at.wall, heard_ms, batch);
    if (entry.alert.state() != v1::ALERT_STATE_RESOLVED) {
      alerts[row.id] = std::move(entry);
    } else if (row.state != v1::ALERT_STATE_RESOLVED) {
      pager_.hold_again(std::move(entry), at);  // see stage_row()
    }
  });
  dirty_.insert(run_uid);
  next_ = 0;
  wake_.notify_one();
  return batch;
}

engine::CommitBatch AlertBook::leave_run(const std::string& run_uid) {
  engine::CommitBatch batch;
  std::lock_guard lock(mutex_);
  RunAlerts known;
  if (auto run = runs_.extract(run_uid)) known = std::move(run.mapped());
  pager_.forget(run_uid);
  dirty_.erase(run_uid);
  const std::int64_t now = clock_.wall_ms();
  const std::vector<std::int32_t> open{v1::ALERT_STATE_PENDING, v1::ALERT_STATE_FIRING, v1::ALERT_STATE_ACKNOWLEDGED,
                                       v1::ALERT_STATE_SILENCED};
  visit(*reader_, run_uid, open, [&](const engine::AlertRow& row) {
    v1::Alert alert;
    if (!alert.ParseFromString(row.alert)) return note_unreadable(row.id);
    alert.set_state(v1::ALERT_STATE_RESOLVED);
    alert.set_resolved_ms(0);  // was_left()
    note(alert, now, v1::ALERT_STATE_RESOLVED, {}, "its run goes on at another server, and so does this alert");
    engine::AlertRow closed = row;
    closed.state = v1::ALERT_STATE_RESOLVED;
    closed.changed_ms = std::max(now, row.changed_ms + 1);
    // What changed last may be on its way to the store.
    if (const auto newest = known.find(row.id); newest != known.end())
      closed.changed_ms = std::max(closed.changed_ms, newest->second.changed_ms + 1);
    closed.alert = bytes_of(alert);
    batch.alerts.push_back(std::move(closed));
  });
  return batch;
}

std::vector<std::string> AlertBook::left_open(const std::string& run_uid) {
  std::vector<std::string> ids;
  visit(*reader_, run_uid, {v1::ALERT_STATE_RESOLVED}, [&](const engine::AlertRow& row) {
    v1::Alert alert;
    if (alert.ParseFromString(row.alert) && was_left(alert) && alert.pages_size() > 0) ids.push_back(row.id);
  });
  return ids;
}

engine::CommitBatch AlertBook::end_left(const std::vector<std::string>& ids) {
  engine::CommitBatch batch;
  std::lock_guard lock(mutex_);
  const Now at = now();
  for (const std::string& id : ids) {
    AlertEntry entry;
    const auto row = reader_->find(id);
    if (!row || !entry.alert.ParseFromString(row->alert) || !was_left(entry.alert)) continue;
    entry.changed_ms = std::max(at.wall, row->changed_ms + 1);
    resolve(entry.alert, at.wall, "it did not go on with its run at another server");
    stage_row(entry, batch);
    for (const v1::Page& page : entry.alert.pages()) {
      batch.outbox.push_back(outbox_row(page.sink(), entry.alert, std::string(kResolved), at.wall));
    }
  }
  return batch;
}

std::vector<domain::Acknowledged> AlertBook::reconcile(const engine::RunContext& run, const std::vector<domain::Finding>& open,
                                                       bool settled, engine::CommitBatch& batch) {
  std::lock_guard lock(mutex_);
  const Now at = now();
  RunAlerts& alerts = runs_[run.run_uid];
  std::set<std::string> ids;
  std::vector<domain::FindingEvent> without;
  for (const domain::Finding& finding : open) {
    std::string id = run.run_uid + "/" + finding.id;
    if (!alerts.contains(id)) {
      if (auto entry = read_open(id, at)) alerts[id] = *std::move(entry);
      without.push_back({domain::FindingEvent::Change::kOpened, finding});
    }
    ids.insert(std::move(id));
  }
  RunAlerts gone;
  for (auto each = alerts.begin(); settled && each != alerts.end();) {
    const auto next = std::next(each);
    if (!ids.contains(each->first)) {
      // Whom it is owed to is told of it as well as of its end.
      settle(causes_of(alerts), each->second, at);
      pager_.changed(each->second, at, batch);
      gone.insert(alerts.extract(each));
    }
    each = next;
  }
  for (const auto& event : without) spdlog::info("run '{}' was read back: {} had no open alert", run.name, event.finding.id);
  for (const auto& [id, entry] : gone) spdlog::info("run '{}' was read back: alert {} is over", run.name, id);
  if (!gone.empty()) resolve_these(run.run_uid, std::move(gone), "it is over where its run was read back", at, batch);
  stage_locked(run, without, at, batch);
  std::vector<domain::Acknowledged> lost;
  const RunAlerts& known = runs_[run.run_uid];  // what went may have taken the run along
  for (const domain::Finding& finding : open) {
    const v1::Alert& alert = known.at(run.run_uid + "/" + finding.id).alert;
    if (alert.acknowledged_by().empty() || !finding.acknowledged_by.empty()) continue;
    spdlog::info("run '{}' was read back: {} had acknowledged {}, which holds", run.name, alert.acknowledged_by(), finding.id);
    lost.push_back({finding.id, alert.acknowledged_by(), alert.comment(), alert.acknowledged_ms()});
  }
  return lost;
}

bool AlertBook::end_run(const std::string& run_uid, const std::string& why) {
  std::lock_guard lock(mutex_);
  const auto run = runs_.find(run_uid);
  if (run == runs_.end() || run->second.empty()) return false;
  ending_.try_emplace(run_uid, why);
  next_ = 0;
  wake_.notify_one();
  return true;
}

void AlertBook::end_runs(Now at, engine::CommitBatch& batch, std::vector<v1::Alert>& changed) {
  for (const auto& [uid, why] : std::exchange(ending_, {})) {
    const auto run = runs_.find(uid);
    if (run == runs_.end() || run->second.empty()) continue;
    const std::size_t before = batch.alerts.size();
    resolve_these(uid, std::exchange(run->second, {}), why, at, batch);
    for (std::size_t i = before; i < batch.alerts.size(); ++i) changed.emplace_back().ParseFromString(batch.alerts[i].alert);
  }
}

std::optional<AlertEntry> AlertBook::read_open(const std::string& id, Now at) {
  if (reader_ == nullptr) return std::nullopt;
  AlertEntry entry;
  try {
    const auto row = reader_->find(id);
    if (!row) return std::nullopt;
    entry.changed_ms = row->changed_ms;
    if (!entry.alert.ParseFromString(row->alert)) {
      note_unreadable(id);
      entry.alert.Clear();
    }
  } catch (const engine::StoreError& error) {
    spdlog::warn("the stored alert {} cannot be read now, and begins anew: {}", id, error.what());
    entry.changed_ms = at.wall;
  }
  if (entry.alert.state() == v1::ALERT_STATE_RESOLVED) open_again(entry, at.wall);
  return entry;
}

}  // namespace scalewatch::alerting
