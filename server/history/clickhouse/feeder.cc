#include "server/history/clickhouse/feeder.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "server/history/clickhouse/claims.h"
#include "server/history/clickhouse/keys.h"
#include "server/history/clickhouse/tables.h"

namespace scalewatch::clickhouse {

namespace {

using std::chrono::milliseconds;

constexpr std::size_t kBatchBytes = std::size_t{64} << 20;  // payloads in one batch
constexpr std::size_t kRowBytes = std::size_t{1} << 30;     // of what waits that stays rows
constexpr milliseconds kRowEvery{2000};                     // a run's row is sent at most this often
constexpr milliseconds kSnapshotEvery{10'000};
constexpr milliseconds kForgetAfter{600'000};  // a quiet run is looked up again when it speaks
constexpr milliseconds kFirstPause{500};       // after an error
constexpr milliseconds kLongestPause{30'000};
constexpr milliseconds kLook{20};  // how soon a stop or a drain is seen while a batch is on its way

}  // namespace

Feeder::Feeder(const Options& options, Who who, history::SqliteStore& store, const engine::Clock& clock)
    : options_(options),
      who_(std::move(who)),
      store_(store),
      clock_(clock),
      state_(store),
      writer_(options, store, who_.instance),
      seqs_(state_.streams()) {
  if (!who_.claims) {
    for (const std::string& run_uid : state_.behind()) {
      Run& run = runs_[run_uid];
      run.fed = run.log = run.row = true;
      run.since = SteadyClock::now();
    }
  }
  store_.retention().keep_unsent(true);
  store_.compactor().keep_unsent(true);
  store_.on_commit([this](const engine::CommitBatch& batch) { committed(batch); });
}

Feeder::~Feeder() {
  stop(milliseconds(0));
}

void Feeder::start(std::function<void(const std::string& run_uid)> replicated) {
  replicated_ = std::move(replicated);
  thread_ = std::thread([this] { loop(); });
}

void Feeder::stop(milliseconds most) {
  {
    std::lock_guard lock(mutex_);
    if (!stopping_) stop_at_ = SteadyClock::now() + most;
    stopping_ = true;
    for (auto& [run_uid, run] : runs_) run.in_a_hurry = true;
  }
  wake_.notify_all();
  settled_.notify_all();
  if (!thread_.joinable()) return;
  if (most.count() == 0) writer_.cancel();
  thread_.join();
}

// ---- what there is to send ------------------------------------------------------------------------------------------

void Feeder::committed(const engine::CommitBatch& batch) {
  std::lock_guard lock(mutex_);
  const auto run_of = [&](const std::string& run_uid) -> Run& {
    Run& run = runs_[run_uid];
    if (!who_.claims) run.fed = true;
    return run;
  };
  const auto note_log = [&](Run& run) {
    run.log = run.row = true;
    if (!run.since) run.since = SteadyClock::now();
  };
  for (const auto& row : batch.reports) {
    Run& run = run_of(row.run_uid);
    run.bytes += row.payload.size();
    note_log(run);
  }
  for (const auto& row : batch.inputs) note_log(run_of(row.run_uid));
  for (const auto& row : batch.runs) run_of(row.run_uid).row = true;
  for (const auto& row : batch.alerts) {
    if (!row.run_uid.empty()) run_of(row.run_uid).row = true;
  }
}

void Feeder::own(const std::string& run_uid, const std::string& name, std::uint64_t term) {
  state_.owned(run_uid, term);  // before anything of it is sent under this term
  const auto stored = state_.streams();
  std::lock_guard lock(mutex_);
  for (const auto& [stream, seq] : stored) {
    if (std::get<0>(stream) == run_uid) seqs_[stream] = std::max(seqs_[stream], seq);
  }
  Run& run = runs_[run_uid];
  run.name = name;
  run.term = term;
  run.fed = run.log = run.row = true;
  run.progress.reset();
  if (!run.since) run.since = SteadyClock::now();
  wake_.notify_one();
}

void Feeder::disown(const std::string& run_uid) {
  std::lock_guard lock(mutex_);
  runs_[run_uid].fed = false;
  settled_.notify_all();
}

std::optional<std::uint64_t> Feeder::term_of(const std::string& run_uid) {
  return state_.progress(run_uid).term;
}

bool Feeder::settled(const std::string& run_uid) {
  const auto found = runs_.find(run_uid);
  return found == runs_.end() || found->second.settled();
}

bool Feeder::drain(const std::string& run_uid, milliseconds most) {
  std::unique_lock lock(mutex_);
  if (const auto found = runs_.find(run_uid); found != runs_.end()) found->second.in_a_hurry = true;
  wake_.notify_one();
  settled_.wait_for(lock, most, [&] { return settled(run_uid) || stopping_; });
  return settled(run_uid);
}

void Feeder::on_lost(std::function<void(const std::string& run_uid, const history::SharedRun& now)> lost) {
  std::lock_guard lock(mutex_);
  lost_ = std::move(lost);
}

std::uint64_t Feeder::replicated_seq(const std::string& run_uid, std::uint32_t rank, const engine::Incarnation& incarnation) {
  std::lock_guard lock(mutex_);
  const auto found = seqs_.find({run_uid, rank, incarnation});
  return found == seqs_.end() ? 0 : found->second;
}

FeedStats Feeder::stats() const {
  std::lock_guard lock(mutex_);
  FeedStats out = stats_;
  std::optional<SteadyClock::time_point> oldest;
  for (const auto& [run_uid, run] : runs_) {
    if (!run.fed) continue;
    out.lag_bytes += run.bytes;
    if (run.since && (!oldest || *run.since < *oldest)) oldest = run.since;
  }
  // Chunks are about half as large as the payloads that they were made of.
  out.lag_bytes -= std::min(out.lag_bytes, 2 * (store_.retention().pressed_out() - pressed_out_));
  out.thinning = over_bound_;
  if (oldest) out.lag_seconds = std::chrono::duration<double>(SteadyClock::now() - *oldest).count();
  return out;
}

// ---- the feeding thread ---------------------------------------------------------------------------------------------

void Feeder::loop() {
  milliseconds pause{0};
  while (true) {
    bool more = false;
    bool failed = false;
    const auto begun = SteadyClock::now();
    try {
      more = round();
      pause = {};
      std::lock_guard lock(mutex_);
      if (!stats_.reachable) spdlog::info("history.clickhouse: reached again");
      stats_.reachable = true;
    } catch (const engine::StoreError& error) {
      failed = true;
      note_error(error.what(), !error.retryable);
    } catch (const std::exception& error) {
      failed = true;
      note_error(error.what(), true);
    }
    if (failed) pause = std::min(std::max(pause * 2, kFirstPause), kLongestPause);
    look_at_bound();
    std::unique_lock lock(mutex_);
    const auto hurries = [&] {
      return std::any_of(runs_.begin(), runs_.end(), [](const auto& entry) {
        return entry.second.in_a_hurry && entry.second.fed && (entry.second.log || entry.second.row);
      });
    };
    const auto until = begun + (failed ? pause : more ? milliseconds(0) : options_.every);
    if (!failed) wake_.wait_until(lock, until, [&] { return stopping_ || hurries(); });
    if (failed) wake_.wait_until(lock, until, [&] { return stopping_; });
    if (!stopping_) continue;
    const bool all =
        std::all_of(runs_.begin(), runs_.end(), [](const auto& entry) { return !entry.second.fed || entry.second.settled(); });
    if (all || SteadyClock::now() >= stop_at_) return;
    if (failed) wake_.wait_for(lock, kLook);
  }
}

void Feeder::note_error(const std::string& what, bool lasts) {
  std::lock_guard lock(mutex_);
  ++stats_.errors;
  if (stats_.reachable || stats_.error != what) {
    if (lasts) {
      spdlog::error("history.clickhouse: {}; what is not there stays in history.db", what);
    } else {
      spdlog::warn("history.clickhouse: {}; what is not there stays in history.db", what);
    }
  }
  stats_.reachable = false;
  stats_.error = what;
}

bool Feeder::round() {
  if (!prepared_) {
    prepare_tables(writer_.connection(), options_);
    prepared_ = true;
  }
  if (batch_.empty()) {
    try {
      build();
    } catch (...) {
      // Half of a batch is none: all of it is read again.
      batch_.clear();
      std::lock_guard lock(mutex_);
      for (auto& [run_uid, run] : runs_) {
        run.log = run.log || run.log_leaves;
        run.log_leaves = false;
      }
      throw;
    }
  }
  if (!batch_.empty()) send();
  const bool more = write_rows();
  drop_old();
  return more;
}

// Beyond the bound what waits is let go of as anything else, its records first.
void Feeder::look_at_bound() {
  const FeedStats now = stats();
  history::Retention& retention = store_.retention();
  const bool large = now.lag_bytes > options_.max_lag_bytes;
  const bool old = now.lag_seconds * 1000 > static_cast<double>(options_.max_lag_age.count());
  if ((large || old) != over_bound_) {
    over_bound_ = large || old;
    retention.keep_unsent(!over_bound_);
    if (over_bound_) {
      spdlog::error(
          "history.clickhouse: {} MB wait since {:.0f} s, more than is kept for it: the oldest records thin out to summaries",
          now.lag_bytes >> 20, now.lag_seconds);
    } else {
      spdlog::info("history.clickhouse: what waits is within its bound again");
    }
  }
  retention.press(large);
  store_.compactor().keep_unsent(!over_bound_ && now.lag_bytes < kRowBytes);
}

// What was being sent before a crash comes first and alone, so that it is the same batch.
void Feeder::build() {
  batch_.clear();
  batch_bytes_.clear();
  claims_checked_ = false;
  std::vector<std::pair<std::string, std::uint64_t>> due;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [run_uid, run] : runs_) {
      if (run.fed && run.log) due.emplace_back(run_uid, run.term);
    }
  }
  // In turn: the one after the last one that was cut short comes first.
  const auto next = std::find_if(due.begin(), due.end(), [&](const auto& run) { return run.first > after_; });
  std::rotate(due.begin(), next, due.end());
  bool intended = false;
  std::map<std::string, history::FeedState::Progress> progress;
  for (const auto& [run_uid, term] : due) {
    std::optional<history::FeedState::Progress> known;
    {
      std::lock_guard lock(mutex_);
      known = runs_[run_uid].progress;
    }
    if (!known) known = state_.progress(run_uid);
    progress[run_uid] = *known;
    intended = intended || known->intent > known->pos;
  }
  std::map<std::string, std::uint64_t> to_pos;
  for (const auto& [run_uid, term] : due) {
    const std::uint64_t pos = progress[run_uid].pos;
    const std::uint64_t intent = progress[run_uid].intent;
    if (intended && intent <= pos) continue;
    {
      std::lock_guard lock(mutex_);
      Run& run = runs_[run_uid];
      run.log = false;  // what is committed from now on is another matter
      run.log_leaves = true;
    }
    bool cut = false;
    batch_.begin_run(run_uid, term, pos,
                     [this, uid = run_uid](std::uint32_t rank, const engine::Incarnation& incarnation, std::size_t at_least)
                         -> const std::vector<TensorKey>& { return writer_.tensors(uid, rank, incarnation, at_least); });
    store_.read_log_while(
        run_uid, pos, history::SqliteStore::Thinned::kAsRows, [&](const engine::HistoryStore::LogEntry& entry) {
          const std::uint64_t at = entry.report ? entry.report->pos : entry.input->pos;
          if (intended && at > intent) {
            cut = true;
            return false;
          }
          batch_.add(entry);
          if (entry.report) batch_bytes_[run_uid] += entry.report->payload.size();
          cut = !intended && (batch_.record_count() >= options_.batch_records || batch_.bytes() >= kBatchBytes);
          return !cut;
        });
    const std::uint64_t reached = batch_.pos();
    batch_.end_run();
    if (reached > pos) to_pos[run_uid] = reached;
    std::lock_guard lock(mutex_);
    if (reached <= pos) runs_[run_uid].log_leaves = false;
    if (cut) {
      runs_[run_uid].log = true;
      if (!intended) {
        after_ = run_uid;
        break;
      }
    }
  }
  if (!intended && !to_pos.empty()) state_.intend(to_pos);
}

void Feeder::look_for_claims() {
  if (!who_.claims || claims_checked_) return;
  std::map<std::string, std::string> names;  // by run_uid
  {
    std::lock_guard lock(mutex_);
    for (const Batch::Part& part : batch_.parts()) names[part.run_uid] = runs_[part.run_uid].name;
  }
  std::vector<std::uint64_t> keys;
  for (const auto& [run_uid, name] : names) keys.push_back(name_key(name));
  const auto owners = newest_claims(writer_.connection(), keys);
  bool lost_any = false;
  for (const Batch::Part& part : batch_.parts()) {
    const auto found = owners.find(name_key(names[part.run_uid]));
    if (found == owners.end() || found->second.term <= part.term) continue;
    lost_any = true;
    history::SharedRun now;
    now.row.run_uid = part.run_uid;
    now.row.name = names[part.run_uid];
    now.instance = found->second.instance;
    now.term = found->second.term;
    now.claimed_ms = found->second.claimed_ms;
    std::unique_lock lock(mutex_);
    Run& run = runs_[part.run_uid];
    if (run.term >= now.term) continue;  // claimed again meanwhile
    run.fed = false;
    const auto lost = lost_;
    lock.unlock();
    spdlog::error(
        "history.clickhouse: run '{}' is fed here under term {}, and {} claimed it with term {}: it is not fed here any more",
        now.row.name, part.term, now.instance, now.term);
    if (lost) lost(part.run_uid, now);
  }
  claims_checked_ = !lost_any;
  if (!lost_any) return;
  // Made anew of what is still ours.
  std::lock_guard lock(mutex_);
  for (const Batch::Part& part : batch_.parts()) {
    Run& run = runs_[part.run_uid];
    run.log = true;
    run.log_leaves = false;
    run.progress.reset();
  }
  batch_.clear();
}

void Feeder::send() {
  look_for_claims();
  if (batch_.empty()) return;
  writer_.write(batch_, next_ms());
  // Who claims a run reads it afterwards. When nobody has claimed it by now, this batch is there for whoever will; otherwise it
  // may have come too late to count, and clients must not let go of it.
  claims_checked_ = false;
  look_for_claims();
  if (batch_.empty()) return;
  std::map<std::string, std::uint64_t> to_pos;
  for (const Batch::Part& part : batch_.parts()) to_pos[part.run_uid] = part.pos.last;
  std::map<history::FeedState::Stream, std::uint64_t> seqs;
  for (const auto& [stream, range] : batch_.streams()) seqs[stream] = range.last;
  state_.sent(to_pos, seqs);
  {
    std::lock_guard lock(mutex_);
    ++stats_.batches;
    stats_.records += batch_.record_count();
    for (const auto& [run_uid, pos] : to_pos) {
      Run& run = runs_[run_uid];
      run.progress = {pos, pos};
      run.bytes -= std::min(run.bytes, batch_bytes_[run_uid]);
      run.since = run.log ? std::optional(SteadyClock::now()) : std::nullopt;
      if (!run.log) run.bytes = 0;
      run.log_leaves = false;
    }
    for (const auto& [stream, seq] : seqs) {
      std::uint64_t& known = seqs_[stream];
      known = std::max(known, seq);
    }
  }
  if (stats().lag_bytes == 0) pressed_out_ = store_.retention().pressed_out();
  settled_.notify_all();
  if (batch_.unreadable() > 0) {
    spdlog::error("history.clickhouse: {} entries of the log can't be read and went without what they held",
                  batch_.unreadable());
  }
  batch_.clear();
  if (!replicated_) return;
  for (const auto& [run_uid, pos] : to_pos) replicated_(run_uid);
}

std::int64_t Feeder::next_ms() {
  version_ms_ = std::max(version_ms_ + 1, clock_.wall_ms());
  return version_ms_;
}

// Rows of runs whose log is sent, each now and then. True when more log waits.
bool Feeder::write_rows() {
  struct Due {
    std::string run_uid;
    std::uint64_t term = 0;
    std::uint64_t pos = 0;
    bool snapshot = false;
  };
  std::vector<Due> due;
  bool more = false;
  const auto now = SteadyClock::now();
  {
    std::lock_guard lock(mutex_);
    for (auto& [run_uid, run] : runs_) {
      more = more || (run.fed && run.log && run.bytes >= kBatchBytes);
      if (!run.fed || !run.row) continue;
      const bool hurries = run.in_a_hurry && !run.log;
      if (!hurries && now - run.row_at < kRowEvery) continue;
      due.push_back(
          {run_uid, run.term, run.progress ? run.progress->pos : 0, hurries || now - run.snapshot_at >= kSnapshotEvery});
      run.row = false;
      run.row_leaves = true;
    }
  }
  for (std::size_t i = 0; i < due.size(); ++i) {
    const Due& one = due[i];
    try {
      writer_.write_run(one.run_uid, row_version(one.term, next_ms()), one.pos, one.snapshot);
    } catch (...) {
      std::lock_guard lock(mutex_);
      for (; i < due.size(); ++i) {
        runs_[due[i].run_uid].row = true;
        runs_[due[i].run_uid].row_leaves = false;
      }
      throw;
    }
    std::lock_guard lock(mutex_);
    Run& run = runs_[one.run_uid];
    run.row_at = now;
    run.row_leaves = false;
    if (one.snapshot) run.snapshot_at = now;
    if (!run.log && !run.row) run.in_a_hurry = false;
  }
  std::lock_guard lock(mutex_);
  std::erase_if(runs_, [&](const auto& entry) {
    const Run& run = entry.second;
    return !who_.claims && !run.log && !run.row && now - run.row_at > kForgetAfter;
  });
  settled_.notify_all();
  return more;
}

void Feeder::drop_old() {
  constexpr std::int64_t kDayMs = 86'400'000;
  const std::int64_t day = (clock_.wall_ms() - options_.keep_log.count()) / kDayMs;
  if (day <= dropped_day_) return;
  drop_payloads(writer_.connection(), options_, day);
  dropped_day_ = day;
}

}  // namespace scalewatch::clickhouse
