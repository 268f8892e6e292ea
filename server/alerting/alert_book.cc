#include "server/alerting/alert_book.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "server/alerting/alert_text.h"
#include "server/alerting/sink.h"

namespace scalewatch::alerting {

namespace {

using Change = domain::FindingEvent::Change;

constexpr std::size_t kPage = 1000;
constexpr std::size_t kMaxFired = 20'000;       // what damping remembers
constexpr std::int64_t kShortestWaitMs = 20;    // between two turns
constexpr std::int64_t kLongestWaitMs = 5'000;  // the wall clock may have jumped
constexpr std::size_t kMaxUnreadable = 10'000;
constexpr double kBehindSeconds = 1;  // up to there an alert leaves within a second of what caused it

std::string flap_key(const v1::Alert& alert) {
  return alert.run_uid() + '\n' + alert.finding().rule() + '\n' + alert.finding().subject();
}

// An alert that was stored before pages were noted: its outbox rows tell who was told.
void note_pages(engine::AlertReader& reader, v1::Alert& alert) {
  for (const v1::DeliveryStatus& delivery : reader.deliveries(alert.id())) {
    if (delivery.transition() != kFiring) continue;
    v1::Page& page = *alert.add_pages();
    page.set_sink(delivery.sink());
    page.set_severity(alert.finding().severity());
    page.set_time_ms(alert.fired_ms());
    page.set_pages(1);
  }
}

}  // namespace

std::string runbook_of(const BookOptions& options, const std::string& rule) {
  constexpr std::string_view kRule = "{rule}";
  std::string url = options.runbook_url;
  if (const auto at = url.find(kRule); at != std::string::npos) url.replace(at, kRule.size(), rule);
  return url;
}

AlertBook::AlertBook(const std::vector<SinkConfig>& sinks, BookOptions options, engine::Clock& clock,
                     std::function<void(const engine::CommitBatch&)> on_committed)
    : options_(std::move(options)), clock_(clock), on_committed_(std::move(on_committed)), pager_(sinks, options_) {}

AlertBook::~AlertBook() {
  stop();
}

void AlertBook::load(engine::AlertReader& reader, const std::function<bool(const std::string& run_uid)>& is_stored) {
  std::lock_guard lock(mutex_);
  reader_ = &reader;
  for (const engine::SilenceRow& row : reader.silences(clock_.wall_ms() - Silences::kKeptMs, Silences::kMaxLoaded)) {
    silences_.load(row, clock_.wall_ms());
  }
  engine::AlertReader::Filter open;
  open.states = {v1::ALERT_STATE_PENDING, v1::ALERT_STATE_FIRING, v1::ALERT_STATE_ACKNOWLEDGED, v1::ALERT_STATE_SILENCED};
  std::optional<engine::AlertReader::Cursor> after;
  while (true) {
    const std::vector<engine::AlertRow> rows = reader.list(open, after, kPage);
    for (const engine::AlertRow& row : rows) {
      AlertEntry entry;
      if (!entry.alert.ParseFromString(row.alert)) {
        note_unreadable(row.id);
        continue;
      }
      if (entry.alert.trail().empty()) {
        note_pages(reader, entry.alert);
        note(entry.alert, entry.alert.fired_ms(), v1::ALERT_STATE_FIRING, {}, "opened");
      }
      entry.changed_ms = row.changed_ms;
      if (entry.alert.state() == v1::ALERT_STATE_RESOLVED) {  // see stage_row()
        runs_[row.run_uid];
        pager_.hold_again(std::move(entry), now());
        continue;
      }
      runs_[row.run_uid][row.id] = std::move(entry);
    }
    if (rows.size() < kPage) break;
    after = {rows.back().severity, rows.back().fired_ms, rows.back().id};
  }
  load_fired(reader);
  for (const auto& [uid, alerts] : runs_) {
    if (!is_stored || alerts.empty() || is_stored(uid)) continue;
    spdlog::warn("{} open alerts are of run {}, which is not stored (any more): they resolve", alerts.size(), uid);
    ending_[uid] = "its run is not stored any more";
  }
}

void AlertBook::submit(engine::CommitBatch batch, std::function<void()> on_durable) {
  std::lock_guard lock(mutex_);
  if (!stopping_) submit_locked(std::move(batch), std::move(on_durable));
}

void AlertBook::note_unreadable(const std::string& id) {
  {
    std::lock_guard lock(unreadable_mutex_);
    if (unreadable_.size() >= kMaxUnreadable || !unreadable_.insert(id).second) return;
  }
  spdlog::error("the stored alert {} cannot be read: it is left out, and who was told of it is not known", id);
}

std::size_t AlertBook::unreadable() {
  std::lock_guard lock(unreadable_mutex_);
  return unreadable_.size();
}

// What damping remembers: what fired within the window, resolved ones too.
void AlertBook::load_fired(engine::AlertReader& reader) {
  if (options_.flap_times == 0) return;
  for (const engine::AlertRow& row : reader.fired_since(clock_.wall_ms() - options_.flap_window.count(), kMaxFired)) {
    v1::Alert alert;
    if (!alert.ParseFromString(row.alert)) continue;
    std::deque<std::int64_t>& times = fired_[flap_key(alert)];
    if (times.size() < options_.flap_times) times.push_front(row.fired_ms);  // newest come first
  }
}

void AlertBook::start(Submit submit, Changed changed) {
  submit_ = std::move(submit);
  changed_ = std::move(changed);
  thread_ = std::thread([this] { loop(); });
}

void AlertBook::measure_lag(std::function<double()> seconds) {
  std::lock_guard lock(mutex_);
  lag_ = std::move(seconds);
}

void AlertBook::reconfigure(const std::vector<SinkConfig>& sinks, BookOptions options) {
  std::lock_guard lock(mutex_);
  options_ = std::move(options);
  pager_.reconfigure(sinks, options_, runs_);
  settle_all_at_ = 0;
  next_ = 0;
  wake_.notify_one();
}

void AlertBook::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void AlertBook::committed(const engine::CommitBatch& batch) {
  if (on_committed_) on_committed_(batch);
}

// ---- what findings change -------------------------------------------------------------------------------------------

void AlertBook::stage(const engine::RunContext& run, const std::vector<domain::FindingEvent>& events,
                      engine::CommitBatch& batch) {
  std::lock_guard lock(mutex_);
  stage_locked(run, events, now(), batch);
}

void AlertBook::stage_locked(const engine::RunContext& run, const std::vector<domain::FindingEvent>& events, Now at,
                             engine::CommitBatch& batch) {
  RunAlerts& alerts = runs_[run.run_uid];
  std::vector<std::string> touched;
  std::set<std::string> taken_on;
  RunAlerts gone;
  bool came_or_went = false;
  const double behind = lag_ ? lag_() : 0;
  for (const domain::FindingEvent& event : events) {
    std::string id = run.run_uid + "/" + event.finding.id;
    const auto [entry, is_new] = alerts.try_emplace(id);
    // It comes and goes at once, as where attempts that were waited for close all together: it is told as both all the same.
    if (event.change == Change::kResolved && std::find(touched.begin(), touched.end(), id) != touched.end()) {
      settle(causes_of(alerts), entry->second, at);
      pager_.changed(entry->second, at, batch);
    }
    const Taken taken = take_event(run, event, entry->second);
    if (taken.on) taken_on.insert(id);
    if (taken.noted && behind >= kBehindSeconds) note_behind(entry->second.alert, behind);
    came_or_went = came_or_went || is_new || event.change == Change::kResolved;
    if (event.change == Change::kResolved) {
      gone.insert(alerts.extract(entry));
      continue;
    }
    if (is_new) hold_back(entry->second.alert, at);
    entry->second.alert.set_runbook(runbook_of(options_, event.finding.rule));
    if (std::find(touched.begin(), touched.end(), id) == touched.end()) touched.push_back(std::move(id));
  }
  const std::vector<const v1::Alert*> causes = causes_of(alerts);
  for (const std::string& id : touched) {
    const auto entry = alerts.find(id);
    if (entry == alerts.end()) continue;
    pager_.unhold(run.run_uid, id);
    settle(causes, entry->second, at);
    pager_.changed(entry->second, at, batch);
    if (taken_on.contains(id)) pager_.acknowledged(entry->second, batch);
    stage_row(entry->second, batch);
  }
  let_go(std::move(gone), at, batch);
  follow_up(run.run_uid, came_or_went, at);
}

void AlertBook::resolve_all(const engine::RunContext& run, const std::string& why, engine::CommitBatch& batch) {
  std::lock_guard lock(mutex_);
  const auto found = runs_.find(run.run_uid);
  if (found == runs_.end()) return;
  resolve_these(run.run_uid, std::exchange(found->second, {}), why, now(), batch);
}

void AlertBook::resolve_these(const std::string& run_uid, RunAlerts&& gone, const std::string& why, Now at,
                              engine::CommitBatch& batch) {
  for (auto& [id, entry] : gone) {
    entry.changed_ms = std::max(at.wall, entry.changed_ms + 1);
    resolve(entry.alert, at.wall, why);
  }
  let_go(std::move(gone), at, batch);
  follow_up(run_uid, true, at);
}

void AlertBook::let_go(RunAlerts&& gone, Now at, engine::CommitBatch& batch) {
  std::vector<AlertEntry*> resolved;
  for (auto& [id, entry] : gone) resolved.push_back(&entry);
  pager_.resolved(resolved, at, batch);
  for (AlertEntry* entry : resolved) {
    stage_row(*entry, batch);
    if (is_waiting(*entry)) pager_.hold(std::move(*entry));
  }
}

void AlertBook::follow_up(const std::string& run_uid, bool came_or_went, Now at) {
  const auto run = runs_.find(run_uid);
  if (run != runs_.end() && run->second.empty() && !pager_.holds(run_uid)) {
    runs_.erase(run);
  } else if (came_or_went) {
    // Others of the run may be explained now, or no longer.
    dirty_.insert(run_uid);
    next_ = std::min(next_, at.steady);
  }
  next_ = std::min(next_, pager_.next());
  wake_.notify_one();
}

void AlertBook::hold_back(v1::Alert& alert, Now now) {
  std::int64_t hold = rules_for(options_, alert).hold_ms;
  if (options_.flap_times > 0) {
    if (fired_.size() > kMaxFired) fired_.clear();
    std::deque<std::int64_t>& times = fired_[flap_key(alert)];
    while (!times.empty() && times.front() <= now.wall - options_.flap_window.count()) times.pop_front();
    times.push_back(now.wall);
    if (times.size() > options_.flap_times) {
      times.pop_front();
      hold = std::max<std::int64_t>(hold, options_.flap_hold.count());
    }
  }
  if (hold > 0) alert.set_held_until_ms(now.wall + hold);
}

bool AlertBook::settle(const std::vector<const v1::Alert*>& causes, AlertEntry& entry, Now now) {
  if (entry.alert.held_until_ms() > now.wall) {
    // No longer than any would be held from now on: the clock may have been ahead.
    const std::int64_t longest = std::max<std::int64_t>(rules_for(options_, entry.alert).hold_ms, options_.flap_hold.count());
    entry.alert.set_held_until_ms(std::min(entry.alert.held_until_ms(), now.wall + longest));
  }
  const bool changed =
      settle_state(entry.alert, silences_.that_silences(entry.alert, now.wall), explained_by(causes, entry.alert), now.wall);
  // What settles next by time alone.
  const std::int64_t held = entry.alert.held_until_ms();
  if (held != 0) settle_all_at_ = std::min(settle_all_at_, held);
  return changed;
}

void AlertBook::stage_row(const AlertEntry& entry, engine::CommitBatch& batch) {
  const v1::Alert& alert = entry.alert;
  // One whose page is still owed stays among the open ones in the store, for the next server to tell of it.
  const bool owed = alert.state() == v1::ALERT_STATE_RESOLVED && is_waiting(entry);
  batch.alerts.push_back({.id = alert.id(),
                          .run_uid = alert.run_uid(),
                          .rule = alert.finding().rule(),
                          .severity = alert.finding().severity(),
                          .state = owed ? v1::ALERT_STATE_FIRING : alert.state(),
                          .fired_ms = alert.fired_ms(),
                          .changed_ms = entry.changed_ms,
                          .alert = bytes_of(alert)});
}

// ---- what the clock changes -----------------------------------------------------------------------------------------

std::int64_t AlertBook::turn(engine::CommitBatch& batch, std::vector<v1::Alert>& changed) {
  std::lock_guard lock(mutex_);
  return turn_locked(batch, changed);
}

std::int64_t AlertBook::turn_locked(engine::CommitBatch& batch, std::vector<v1::Alert>& changed) {
  const Now at = now();
  std::map<std::string, AlertEntry*> touched;  // by id
  const auto settle_run = [&](RunAlerts& run) {
    const std::vector<const v1::Alert*> causes = causes_of(run);
    for (auto& [id, entry] : run) {
      if (!settle(causes, entry, at)) continue;
      entry.changed_ms = std::max(at.wall, entry.changed_ms + 1);
      pager_.changed(entry, at, batch);
      touched[id] = &entry;
      changed.push_back(entry.alert);
    }
  };
  end_runs(at, batch, changed);
  if (at.wall < turned_at_ - Silences::kClockMs) {  // the clock was set back
    settle_all_at_ = 0;
    pager_.look_again();
    load_silences_again(at.wall);
    for (auto& [uid, run] : runs_) {
      for (auto& [id, entry] : run) {
        if (entry.alert.held_until_ms() == 0) continue;
        entry.alert.set_held_until_ms(entry.alert.held_until_ms() - (turned_at_ - at.wall));
        entry.changed_ms = std::max(at.wall, entry.changed_ms + 1);
        touched[id] = &entry;
      }
    }
  }
  turned_at_ = at.wall;
  if (at.wall >= settle_all_at_) {
    for (const v1::Silence& silence : silences_.bring_back(at.wall)) batch.silences.push_back(Silences::row(silence));
    settle_all_at_ = silences_.next_end(at.wall).value_or(Pager::kNever);
    for (auto& [uid, run] : runs_) settle_run(run);
    silences_.prune(at.wall);
  } else {
    for (const std::string& uid : dirty_) {
      if (const auto run = runs_.find(uid); run != runs_.end()) settle_run(run->second);
    }
  }
  dirty_.clear();
  std::vector<AlertEntry> released;
  if (at.steady >= pager_.next()) {
    const auto touch = [&](AlertEntry& entry) {
      entry.changed_ms = std::max(at.wall, entry.changed_ms + 1);
      touched[entry.alert.id()] = &entry;
    };
    pager_.turn(runs_, at, batch, touch);
    released = pager_.release();
    for (AlertEntry& entry : released) {
      touch(entry);
      const auto run = runs_.find(entry.alert.run_uid());
      if (run != runs_.end() && run->second.empty() && !pager_.holds(run->first)) runs_.erase(run);
    }
  }
  for (const auto& [id, entry] : touched) stage_row(*entry, batch);
  std::int64_t wait = std::min(pager_.next() - at.steady, kLongestWaitMs);
  if (settle_all_at_ != Pager::kNever) wait = std::min(wait, settle_all_at_ - at.wall);
  next_ = at.steady + std::max<std::int64_t>(wait, 0);
  return next_;
}

void AlertBook::submit_locked(engine::CommitBatch batch, std::function<void()> on_durable) {
  std::vector<v1::Alert> changed;
  turn_locked(batch, changed);
  if (batch.empty()) return;
  // Under the lock: what a run's strand stages later must not overtake it.
  submit_(std::move(batch), [this, changed = std::move(changed), on_durable = std::move(on_durable)] {
    if (changed_) {
      for (const v1::Alert& alert : changed) changed_(alert);
    }
    if (on_durable) on_durable();
  });
}

void AlertBook::loop() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    submit_locked({}, {});
    wake_.wait_for(lock, std::chrono::milliseconds(kShortestWaitMs), [&] { return stopping_; });
    while (!stopping_) {
      const std::int64_t left = next_ - clock_.steady_ms();
      if (left <= 0) break;
      wake_.wait_for(lock, std::chrono::milliseconds(left));
    }
  }
}

}  // namespace scalewatch::alerting
