#include "server/history/retention.h"

#include <fnmatch.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <sstream>

#include "server/history/keys.h"

namespace scalewatch::history {

namespace {

constexpr std::int64_t kRows = 40;        // of background work in one transaction
constexpr std::int64_t kSmallRows = 400;  // of rows without blobs
constexpr std::int64_t kPages = 128;      // moved at once: 2 MB
constexpr std::int64_t kJumpMs = 3'600'000;
constexpr std::int64_t kCameBackMs = 3'600'000;
constexpr std::size_t kMaxCameBack = 100;
constexpr int kRunning = 1;  // v1.RUN_STATUS_RUNNING

// Of a task that thins: stretches of the run (?1) that it is about and that have chunks. ?2 is its `below`, ?3 that what the
// shared history lacks may go, ?4 its `segment`.
const std::string kOfTask =
    "thinned = 0 AND last_attempt < CASE WHEN segment < ?4 THEN 9223372036854775807 WHEN segment = ?4 THEN ?2 ELSE 0 END AND "
    "(?3 "
    "OR last_seq <= coalesce((SELECT seq FROM feed_streams WHERE stream = streams.id), 0))";

}  // namespace

Retention::Retention(const std::string& path, const RetentionOptions& options, Write write, std::function<void()> removed)
    : options_(options), write_(std::move(write)), removed_(std::move(removed)), reader_(path, SQLITE_OPEN_READONLY) {
  std::istringstream names(options_.pinned);
  for (std::string name; std::getline(names, name, ',');) {
    name.erase(0, name.find_first_not_of(' '));
    name.erase(name.find_last_not_of(' ') + 1);
    if (!name.empty()) pinned_.push_back(name);
  }
  Query begun(reader_, "SELECT run FROM removals JOIN runs ON runs.id = removals.run WHERE status <> ? LIMIT 1", kRunning);
  if (begun.step()) removing_ = begun.i64(0);
}

bool Retention::is_pinned(const std::string& name) const {
  return std::any_of(pinned_.begin(), pinned_.end(),
                     [&](const auto& pattern) { return fnmatch(pattern.c_str(), name.c_str(), 0) == 0; });
}

std::int64_t Retention::used_bytes() {
  return (reader_.scalar("PRAGMA page_count") - reader_.scalar("PRAGMA freelist_count")) * reader_.scalar("PRAGMA page_size");
}

void Retention::set_holder(UnlessHeld unless_held, EndAlerts end_alerts) {
  std::lock_guard lock(holder_mutex_);
  unless_held_ = std::move(unless_held);
  end_alerts_ = std::move(end_alerts);
}

bool Retention::ends_alerts(const std::string& uid) {
  std::lock_guard lock(holder_mutex_);
  return end_alerts_ && end_alerts_(uid);
}

void Retention::set_row_waits(RowWaits row_waits) {
  std::lock_guard lock(holder_mutex_);
  row_waits_ = std::move(row_waits);
}

bool Retention::row_waits(const std::string& uid) {
  std::lock_guard lock(holder_mutex_);
  return keep_unsent_ && row_waits_ && row_waits_(uid);
}

bool Retention::is_held(const std::string& name) {
  std::lock_guard lock(holder_mutex_);
  return unless_held_ && !unless_held_(name, {});
}

void Retention::erase(const Task& task, const std::function<void(Connection&)>& work) {
  // Behind the gate: of a run that is not held now no row was committed since.
  write_(WriteClass::kRetention, [&](Connection& writer) {
    if (task.ended && is_held(task.name)) return;
    work(writer);
    if (task.remove && task.ended) Query(writer, "INSERT OR IGNORE INTO removals (run) VALUES (?)", task.run).run();
  });
}

bool Retention::has_whole_stretch(const Task& task) {
  Query query(reader_,
              "SELECT 1 FROM streams JOIN stretches INDEXED BY stretches_whole ON stretches.stream = streams.id "
              "WHERE run = ?1 AND " +
                  kOfTask + " LIMIT 1",
              task.run, static_cast<std::int64_t>(std::min<std::uint64_t>(task.below, INT64_MAX)), !keep_unsent_, task.segment);
  return query.step();
}

bool Retention::trusts_clock(std::int64_t now_ms, std::int64_t steady_ms) {
  const std::int64_t ahead = now_ms - steady_ms;
  if (!clock_ahead_ms_ || ahead <= *clock_ahead_ms_ + kJumpMs) {
    clock_ahead_ms_ = ahead;
    trusted_from_ms_.reset();
    return true;
  }
  if (!trusted_from_ms_) {
    spdlog::warn("history: the clock was set forward by {} h: nothing goes by its age for a day",
                 (ahead - *clock_ahead_ms_) / kJumpMs);
    trusted_from_ms_ = steady_ms + 24 * kJumpMs;
  }
  if (steady_ms < *trusted_from_ms_) return false;
  clock_ahead_ms_ = ahead;
  trusted_from_ms_.reset();
  return true;
}

void Retention::comes_back(const std::string& uid) {
  const std::lock_guard lock(came_back_mutex_);
  std::erase_if(came_back_, [&](const CameBack& run) { return run.uid == uid; });
  came_back_.push_back({uid, std::nullopt});
  if (came_back_.size() > kMaxCameBack) came_back_.pop_front();
}

void Retention::look_at_those_that_came_back(std::int64_t steady_ms) {
  const std::lock_guard lock(came_back_mutex_);
  for (CameBack& run : came_back_) run.seen_ms = run.seen_ms.value_or(steady_ms);
  std::erase_if(came_back_, [&](const CameBack& run) { return steady_ms - *run.seen_ms >= kCameBackMs; });
}

bool Retention::came_back(const std::string& uid) const {
  const std::lock_guard lock(came_back_mutex_);
  return std::any_of(came_back_.begin(), came_back_.end(), [&](const CameBack& run) { return run.uid == uid; });
}

bool Retention::step(std::int64_t now_ms, std::int64_t steady_ms) {
  ages_count_ = trusts_clock(now_ms, steady_ms);
  if (!task_) task_ = choose_begun();
  if (!task_) {
    if (!pressed_ && looked_ms_ && now_ms - *looked_ms_ < options_.every.count()) return false;
    look_at_those_that_came_back(steady_ms);
    task_ = choose_pressed();
    if (!task_) task_ = choose(now_ms);
    if (!task_) task_ = choose_attempts();
    if (!task_) task_ = choose_run_size();
    if (!task_) {
      looked_ms_ = now_ms;
      return false;
    }
    if (task_->pressed) {
      spdlog::warn("history: run '{}' keeps only summaries of its oldest attempts: too much waits for ClickHouse", task_->name);
    } else if (task_->quota) {
      spdlog::info("history: run '{}' holds more than history.max_run_size: its oldest attempts keep only summaries",
                   task_->name);
    } else {
      spdlog::info("history: run '{}' is {}", task_->name, task_->remove ? "removed" : "thinned to summaries");
    }
  }
  const bool taken_up = task_->ended && is_held(task_->name);
  if (taken_up) spdlog::info("history: run '{}' goes on: what is left of it stays", task_->name);
  if (taken_up && task_->remove) {
    write_(WriteClass::kRetention,
           [&](Connection& writer) { Query(writer, "DELETE FROM removals WHERE run = ?", task_->run).run(); });
  }
  removing_ = task_->remove && !taken_up ? task_->run : -1;
  if (taken_up || !(task_->remove ? remove(*task_) : thin(*task_))) task_.reset();
  if (!task_) removing_ = -1;
  return true;
}

// Whatever has changed since: of such a run half is gone.
std::optional<Retention::Task> Retention::choose_begun() {
  if (looked_ms_ || reader_.scalar("SELECT count(*) FROM removals") == 0) return std::nullopt;
  // One that has gone on since stays.
  write_(WriteClass::kRetention, [](Connection& writer) {
    Query(writer, "DELETE FROM removals WHERE run NOT IN (SELECT id FROM runs WHERE status <> ?)", kRunning).run();
  });
  Query query(reader_, "SELECT id, uid, name FROM removals JOIN runs ON runs.id = removals.run LIMIT 1");
  if (!query.step()) return std::nullopt;
  Task task{query.i64(0), query.bytes(1), query.bytes(2)};
  spdlog::info("history: run '{}' was being removed when the server ended", task.name);
  task.remove = true;
  task.ended = true;
  return task;
}

std::optional<Retention::Task> Retention::choose(std::int64_t now_ms) {
  // Runs beyond their number; those that must wait are not made up for by newer ones.
  std::int64_t too_many = options_.max_runs == 0 ? 0 : reader_.scalar("SELECT count(*) FROM runs") - options_.max_runs;
  const bool too_large = options_.max_bytes > 0 && used_bytes() > static_cast<std::int64_t>(options_.max_bytes);
  std::optional<Task> oldest;
  std::optional<Task> to_thin;
  Query query(reader_,
              "SELECT id, uid, name, max(last_report_ms, created_ms) AS ended FROM runs WHERE status <> ? ORDER BY ended, id",
              kRunning);
  while (query.step()) {
    Task task{query.i64(0), query.bytes(1), query.bytes(2)};
    if (is_pinned(task.name) || has_unsent(task.run, task.uid)) continue;
    const std::int64_t age = ages_count_ ? now_ms - query.i64(3) : 0;
    task.ended = true;
    task.remove = too_many > 0 || (options_.max_age.count() > 0 && age > options_.max_age.count());
    const auto stays = [&] { return is_owed(task.uid, age) || row_waits(task.uid); };
    if (is_held(task.name) || came_back(task.uid) || (task.remove && (stays() || ends_alerts(task.uid)))) {
      --too_many;
      continue;
    }
    if (task.remove) return task;
    const bool old = options_.thin_after.count() > 0 && age > options_.thin_after.count();
    if ((old || too_large) && has_whole_stretch(task)) {
      if (old) return task;
      if (!to_thin) to_thin = task;
    }
    if (too_large && !oldest && !stays()) oldest = task;
    if (!too_large && !old && options_.max_age.count() == 0) break;  // those that follow are newer
  }
  if (too_large && to_thin) return to_thin;
  if (too_large && oldest && !ends_alerts(oldest->uid)) {
    oldest->remove = true;
    return oldest;
  }
  return std::nullopt;
}

std::optional<Retention::Task> Retention::choose_attempts() {
  if (options_.keep_attempts == 0) return std::nullopt;
  Query runs(reader_, "SELECT id, uid, name, segment FROM runs");
  while (runs.step()) {
    Task task{runs.i64(0), runs.bytes(1), runs.bytes(2)};
    if (is_pinned(task.name)) continue;
    // A job that starts again over and over has few attempts in each segment, and many in all.
    std::uint64_t left = options_.keep_attempts;
    task.segment = 0;
    Query segments(reader_,
                   "SELECT segment, (SELECT max(attempt) FROM reports WHERE run = streams.run AND reports.segment = "
                   "streams.segment) FROM streams WHERE run = ? GROUP BY segment ORDER BY segment DESC",
                   task.run);
    while (segments.step()) {
      const std::uint64_t newest = segments.u64(1);
      if (newest <= left) {
        left -= newest;
        continue;
      }
      task.segment = segments.u32(0);
      task.below = newest - left + 1;
      break;
    }
    if (task.segment > 0 && has_whole_stretch(task)) return task;
  }
  return std::nullopt;
}

std::optional<Retention::Task> Retention::choose_pressed() {
  if (!pressed_) return std::nullopt;
  Query query(reader_, "SELECT id, uid, name FROM runs ORDER BY id");
  while (query.step()) {
    Task task{query.i64(0), query.bytes(1), query.bytes(2)};
    if (is_pinned(task.name) || !has_whole_stretch(task)) continue;
    task.pressed = true;
    return task;
  }
  return std::nullopt;
}

bool Retention::has_unsent(std::int64_t run, const std::string& uid) {
  if (!keep_unsent_) return false;
  Query query(
      reader_,
      "SELECT max(coalesce((SELECT max(pos) FROM reports WHERE run = ?1), 0), coalesce((SELECT max(pos) FROM inputs WHERE "
      "run = ?1), 0)) > coalesce((SELECT pos FROM feed_runs WHERE run_uid = ?2), 0)",
      run, uid);
  return query.step() && query.i64(0) != 0;
}

bool Retention::is_owed(const std::string& uid, std::int64_t age_ms) {
  // Alerts of a run that is lost resolve once it is gone for good (rules.run_gone_after, a day), unless that is switched off.
  constexpr std::int64_t kOpenMs = 7LL * 24 * 3'600'000;
  if (age_ms < kOpenMs) {
    Query open(reader_, "SELECT 1 FROM alerts WHERE run_uid = ? AND state IN (2, 3, 4) LIMIT 1", uid);
    if (open.step()) return true;
  }
  constexpr std::int64_t kGivenUp = INT64_MAX;  // as next_try_ms
  Query query(reader_,
              "SELECT 1 FROM alerts JOIN outbox INDEXED BY outbox_by_alert ON outbox.alert_id = alerts.id "
              "WHERE run_uid = ? AND delivered = 0 AND next_try_ms < ? LIMIT 1",
              uid, kGivenUp);
  return query.step();
}

std::int64_t Retention::chunk_bytes(std::int64_t run) {
  Size& size = sizes_[run];
  std::vector<std::int64_t> streams;
  {
    Query query(reader_, "SELECT id FROM streams WHERE run = ?", run);
    while (query.step()) streams.push_back(query.i64(0));
  }
  for (const std::int64_t stream : streams) {
    auto& seen = size.seen.try_emplace(stream, chunk_key(stream, 0, 0) - 1).first->second;
    Query newer(reader_, "SELECT coalesce(sum(length(frames)), 0), max(id) FROM chunks WHERE id > ? AND id < ?", seen,
                chunk_key(stream + 1, 0, 0));
    if (!newer.step() || newer.is_null(1)) continue;
    size.bytes += newer.i64(0);
    seen = newer.i64(1);
  }
  return size.bytes;
}

std::optional<Retention::Task> Retention::choose_run_size() {
  if (options_.max_run_bytes == 0) return std::nullopt;
  std::vector<Task> runs;
  {
    Query query(reader_, "SELECT id, uid, name FROM runs");
    while (query.step()) runs.push_back({query.i64(0), query.bytes(1), query.bytes(2)});
  }
  std::optional<Task> over;
  std::map<std::string, std::uint64_t, std::less<>> told;
  for (auto& task : runs) {
    if (is_pinned(task.name)) continue;
    const std::int64_t bytes = chunk_bytes(task.run);
    told[task.name] = static_cast<std::uint64_t>(std::max<std::int64_t>(bytes, 0));
    if (over || bytes <= static_cast<std::int64_t>(options_.max_run_bytes) || !has_whole_stretch(task)) continue;
    task.quota = true;
    over = task;
  }
  std::lock_guard lock(told_mutex_);
  told_ = std::move(told);
  return over;
}

std::map<std::string, std::uint64_t, std::less<>> Retention::run_bytes() const {
  std::lock_guard lock(told_mutex_);
  return told_;
}

std::optional<std::int64_t> Retention::oldest_stretch(const Task& task) {
  // The first of each stream; of these the oldest.
  Query query(reader_,
              "SELECT stretches.id FROM (SELECT segment, (SELECT id FROM stretches INDEXED BY stretches_whole WHERE stream = "
              "streams.id AND " +
                  kOfTask +
                  " ORDER BY last_attempt LIMIT 1) AS first FROM streams WHERE run = "
                  "?1) JOIN stretches ON stretches.id = first ORDER BY segment, last_attempt LIMIT 1",
              task.run, static_cast<std::int64_t>(std::min<std::uint64_t>(task.below, INT64_MAX)), !keep_unsent_, task.segment);
  if (!query.step()) return std::nullopt;
  return query.i64(0);
}

bool Retention::remove_range(const Task& task, const char* select, const char* erase, std::int64_t first, std::int64_t last) {
  {
    Query any(reader_, select, first, last);
    if (!any.step()) return false;
  }
  this->erase(task, [&](Connection& writer) { Query(writer, erase, first, last, kRows).run(); });
  return true;
}

bool Retention::thin(const Task& task) {
  const bool counts = options_.max_run_bytes > 0;
  const auto oldest = oldest_stretch(task);
  if (!oldest) return false;
  const std::int64_t stretch = *oldest;
  // What was begun is thinned to its end.
  if (task.quota && stretch != begun_ && chunk_bytes(task.run) <= static_cast<std::int64_t>(options_.max_run_bytes))
    return false;
  if (task.pressed && stretch != begun_ && !pressed_) return false;
  begun_ = stretch;
  std::int64_t going = 0;
  if (counts || task.pressed) {
    Query size(reader_,
               "SELECT coalesce(sum(length(frames)), 0) FROM (SELECT frames FROM chunks WHERE id BETWEEN ? AND ? LIMIT ?)",
               stretch << 20, (stretch << 20) + kMaxBlock, kRows);
    if (size.step()) going = size.i64(0);
  }
  // Chunks share the stretch's key but for the block.
  if (remove_range(task, "SELECT 1 FROM chunks WHERE id BETWEEN ? AND ? LIMIT 1",
                   "DELETE FROM chunks WHERE id IN (SELECT id FROM chunks WHERE id BETWEEN ? AND ? LIMIT ?)", stretch << 20,
                   (stretch << 20) + kMaxBlock)) {
    if (counts) sizes_[task.run].bytes -= going;
    if (task.pressed) pressed_out_ += static_cast<std::uint64_t>(going);
    return true;
  }
  write_(WriteClass::kRetention, [&](Connection& writer) {
    Query(writer, "UPDATE stretches SET thinned = 1, detail = x'' WHERE id = ?", stretch).run();
  });
  return true;
}

bool Retention::remove(const Task& task) {
  std::vector<std::int64_t> streams;
  {
    Query query(reader_, "SELECT id FROM streams WHERE run = ?", task.run);
    while (query.step()) streams.push_back(query.i64(0));
  }
  for (const std::int64_t stream : streams) {
    if (remove_range(task, "SELECT 1 FROM chunks WHERE id BETWEEN ? AND ? LIMIT 1",
                     "DELETE FROM chunks WHERE id IN (SELECT id FROM chunks WHERE id BETWEEN ? AND ? LIMIT ?)",
                     chunk_key(stream, 0, 0), chunk_key(stream, kMaxStretch, kMaxBlock)) ||
        remove_range(task, "SELECT 1 FROM summaries WHERE id BETWEEN ? AND ? LIMIT 1",
                     "DELETE FROM summaries WHERE id IN (SELECT id FROM summaries WHERE id BETWEEN ? AND ? LIMIT ?)",
                     summary_key(stream, 0, 0), summary_key(stream, kMaxBlock, kMaxStretch)) ||
        remove_range(task, "SELECT 1 FROM stretches WHERE id BETWEEN ? AND ? LIMIT 1",
                     "DELETE FROM stretches WHERE id IN (SELECT id FROM stretches WHERE id BETWEEN ? AND ? LIMIT ?)",
                     stretch_key(stream, 0), stretch_key(stream, kMaxStretch))) {
      return true;
    }
    std::vector<std::int64_t> reports;
    {
      Query query(reader_, "SELECT id FROM reports WHERE stream = ? LIMIT ?", stream, kRows);
      while (query.step()) reports.push_back(query.i64(0));
    }
    if (!reports.empty()) {
      erase(task, [&](Connection& writer) {
        for (const std::int64_t id : reports) {
          Query(writer, "DELETE FROM payloads WHERE id = ?", id).run();
          Query(writer, "DELETE FROM kept_payloads WHERE id = ?", id).run();
          Query(writer, "DELETE FROM reports WHERE id = ?", id).run();
        }
      });
      return true;
    }
  }
  for (const char* sql :
       {"DELETE FROM scaler_rows WHERE (run, segment, scaler, attempt, rank) IN (SELECT run, segment, scaler, attempt, rank "
        "FROM "
        "scaler_rows WHERE run = ? LIMIT ?)",
        "DELETE FROM scaler_sums WHERE (run, segment, scaler, bucket) IN (SELECT run, segment, scaler, bucket FROM scaler_sums "
        "WHERE run = ? LIMIT ?)",
        "DELETE FROM inputs WHERE (run, pos) IN (SELECT run, pos FROM inputs WHERE run = ? LIMIT ?)"}) {
    std::int64_t gone = 0;
    erase(task, [&](Connection& writer) {
      Query(writer, sql, task.run, kSmallRows).run();
      gone = writer.changes();
    });
    if (gone > 0) return true;
  }
  for (const std::int64_t stream : streams) {
    erase(task, [&](Connection& writer) { Query(writer, "DELETE FROM table_deltas WHERE stream = ?", stream).run(); });
  }
  remove_last(task);
  return false;
}

void Retention::remove_last(const Task& task) {
  const auto remove_rest = [&](Connection& writer) {
    // What was brought in its place meanwhile has the same uid.
    if (Query there(writer, "SELECT 1 FROM runs WHERE id = ?", task.run); !there.step()) return;
    if (!task.keep_outbox)
      Query(writer, "DELETE FROM outbox WHERE alert_id IN (SELECT id FROM alerts WHERE run_uid = ?)", task.uid).run();
    Query(writer, "DELETE FROM alerts WHERE run_uid = ?", task.uid).run();
    Query(writer, "DELETE FROM snapshots WHERE run = ?", task.run).run();
    Query(writer, "DELETE FROM feed_streams WHERE stream IN (SELECT id FROM streams WHERE run = ?)", task.run).run();
    Query(writer, "DELETE FROM streams WHERE run = ?", task.run).run();
    Query(writer, "DELETE FROM feed_runs WHERE run_uid = ?", task.uid).run();
    Query(writer, "DELETE FROM shared_floors WHERE run_uid = ?", task.uid).run();
    Query(writer, "DELETE FROM runs WHERE id = ?", task.run).run();
    Query(writer, "DELETE FROM removals WHERE run = ?", task.run).run();
    sizes_.erase(task.run);
    removed_();
  };
  std::lock_guard lock(holder_mutex_);
  if (task.ended && unless_held_) {
    unless_held_(task.name, [&] { write_(WriteClass::kRetention, remove_rest); });
  } else {
    write_(WriteClass::kRetention, remove_rest);
  }
}

bool Retention::shrink(std::int64_t keep) {
  const std::int64_t free = reader_.scalar("PRAGMA freelist_count");
  if (free <= keep) return false;
  const std::string sql = "PRAGMA incremental_vacuum(" + std::to_string(std::min(kPages, free - keep)) + ")";
  write_(WriteClass::kRetention, [&](Connection& writer) { writer.execute(sql.c_str()); });
  return reader_.scalar("PRAGMA freelist_count") < free;
}

}  // namespace scalewatch::history
