// Alerts of runs that come from another server of the fleet, or go to one.
#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "server/alerting/alert_book.h"
#include "server/alerting/alert_text.h"
#include "server/alerting/sink.h"

namespace scalewatch::alerting {

namespace {

constexpr std::size_t kPage = 1000;
constexpr std::size_t kMaxAlerts = 10'000;         // of a run
constexpr std::int64_t kRepeatedFor = 5 * 60'000;  // what was told so lately may not have been delivered

bool is_recent(std::int64_t time_ms, std::int64_t now) {
  return time_ms != 0 && std::llabs(now - time_ms) < kRepeatedFor;
}

// The server before noted that it would tell this; whether it still did so is not known. The same keys again.
void repeat(const v1::Alert& alert, std::int64_t now, engine::CommitBatch& batch) {
  const bool resolved = alert.state() == v1::ALERT_STATE_RESOLVED;
  for (const v1::Page& page : alert.pages()) {
    if (resolved && is_recent(alert.resolved_ms(), now)) {
      batch.outbox.push_back(outbox_row(page.sink(), alert, std::string(kResolved), now));
    } else if (!resolved && page.pages() == 1 && is_recent(page.time_ms(), now)) {
      batch.outbox.push_back(outbox_row(page.sink(), alert, std::string(kFiring), now));
    }
  }
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

engine::CommitBatch AlertBook::take_run(const std::string& run_uid, engine::AlertReader& reader) {
  engine::CommitBatch batch;
  std::lock_guard lock(mutex_);
  const std::int64_t now = clock_.wall_ms();
  RunAlerts& alerts = runs_[run_uid];
  visit(reader, run_uid, {}, [&](const engine::AlertRow& row) {
    AlertEntry entry;
    if (!entry.alert.ParseFromString(row.alert)) return note_unreadable(row.id);
    repeat(entry.alert, now, batch);
    if (entry.alert.state() == v1::ALERT_STATE_RESOLVED) return;
    entry.changed_ms = row.changed_ms;
    alerts[row.id] = std::move(entry);
  });
  dirty_.insert(run_uid);
  next_ = 0;
  wake_.notify_one();
  return batch;
}

engine::CommitBatch AlertBook::leave_run(const std::string& run_uid, engine::AlertReader& reader) {
  engine::CommitBatch batch;
  std::lock_guard lock(mutex_);
  runs_.erase(run_uid);
  dirty_.erase(run_uid);
  const std::int64_t now = clock_.wall_ms();
  const std::vector<std::int32_t> open{v1::ALERT_STATE_PENDING, v1::ALERT_STATE_FIRING, v1::ALERT_STATE_ACKNOWLEDGED,
                                       v1::ALERT_STATE_SILENCED};
  visit(reader, run_uid, open, [&](const engine::AlertRow& row) {
    v1::Alert alert;
    if (!alert.ParseFromString(row.alert)) return note_unreadable(row.id);
    alert.set_state(v1::ALERT_STATE_RESOLVED);
    note(alert, now, v1::ALERT_STATE_RESOLVED, {}, "its run goes on at another server, and so does this alert");
    engine::AlertRow closed = row;
    closed.state = v1::ALERT_STATE_RESOLVED;
    closed.changed_ms = std::max(now, row.changed_ms + 1);
    closed.alert = bytes_of(alert);
    batch.alerts.push_back(std::move(closed));
  });
  return batch;
}

}  // namespace scalewatch::alerting
