#include "server/history/clickhouse/feeder.h"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace scalewatch::clickhouse {

namespace {

using std::chrono::milliseconds;

constexpr std::size_t kRowBytes = std::size_t{1} << 30;  // of what waits that stays rows
constexpr std::size_t kSoonBytes = kBatchBytes / 2;      // of what waits that leaves before its time
constexpr milliseconds kFirstPause{500};                 // after an error
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
      maker_(options, store),
      runs_(who_.claims) {
  if (who_.claims) rows_after_.reset();  // a claim makes them due
  if (!who_.claims) {
    for (const std::string& run_uid : state_.behind()) runs_.behind(run_uid);
  }
  store_.retention().keep_unsent(true);
  store_.retention().set_row_waits([this](const std::string& run_uid) { return row_waits(run_uid); });
  store_.compactor().keep_unsent(true);
  store_.on_commit([this](const engine::CommitBatch& batch) {
    std::lock_guard lock(mutex_);
    runs_.committed(batch);
    if (runs_.has_waiting(kSoonBytes)) wake_.notify_one();
  });
}

Feeder::~Feeder() {
  stop(milliseconds(0));
  store_.retention().set_row_waits({});
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
    runs_.hurry_all();
  }
  wake_.notify_all();
  settled_.notify_all();
  if (!thread_.joinable()) return;
  if (most.count() == 0) writer_.cancel();
  thread_.join();
}

// ---- what there is to send ------------------------------------------------------------------------------------------

void Feeder::own(const std::string& run_uid, const std::string& name, std::uint64_t term) {
  state_.owned(run_uid, term);  // before anything of it is sent under this term
  seqs_.forget(run_uid);        // it may have been brought since
  std::lock_guard lock(mutex_);
  runs_.own(run_uid, name, term);
  wake_.notify_one();
}

void Feeder::disown(const std::string& run_uid) {
  std::lock_guard lock(mutex_);
  runs_.disown(run_uid);
  settled_.notify_all();
}

bool Feeder::row_waits(const std::string& run_uid) {
  {
    const std::lock_guard lock(mutex_);
    if (runs_.row_waits(run_uid)) return true;
  }
  if (who_.claims) return false;
  // After a start runs are looked at one after the other.
  const auto mark = state_.row_mark(run_uid);
  return mark && mark->sent != mark->now;
}

std::optional<std::uint64_t> Feeder::term_of(const std::string& run_uid) {
  return state_.progress(run_uid).term;
}

bool Feeder::drain(const std::string& run_uid, milliseconds most) {
  std::unique_lock lock(mutex_);
  runs_.hurry(run_uid);
  wake_.notify_one();
  settled_.wait_for(lock, most, [&] { return runs_.settled(run_uid) || stopping_; });
  return runs_.settled(run_uid);
}

void Feeder::on_lost(std::function<void(const std::string& run_uid, const history::SharedRun& now)> lost) {
  std::lock_guard lock(mutex_);
  lost_ = std::move(lost);
}

std::uint64_t Feeder::replicated_seq(const std::string& run_uid, std::uint32_t rank, const engine::Incarnation& incarnation) {
  try {
    return seqs_.of(run_uid, rank, incarnation);
  } catch (const engine::StoreError& error) {
    spdlog::warn("history.clickhouse: what is there of run {} is not known now: {}", run_uid, error.what());
    return 0;
  }
}

FeedStats Feeder::stats() const {
  std::lock_guard lock(mutex_);
  FeedStats out = stats_;
  const auto waiting = runs_.waiting();
  out.lag_bytes = waiting.bytes;
  // Chunks are about half as large as the payloads that they were made of.
  out.lag_bytes -= std::min(out.lag_bytes, 2 * (store_.retention().pressed_out() - pressed_out_));
  out.thinning = over_bound_;
  if (waiting.since) out.lag_seconds = std::chrono::duration<double>(SteadyClock::now() - *waiting.since).count();
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
    const auto until = begun + (failed ? pause : more ? milliseconds(0) : options_.every);
    if (!failed) wake_.wait_until(lock, until, [&] { return stopping_ || runs_.hurries() || runs_.has_waiting(kSoonBytes); });
    if (failed) wake_.wait_until(lock, until, [&] { return stopping_; });
    if (!stopping_) continue;
    if (runs_.all_settled() || SteadyClock::now() >= stop_at_) return;
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

}  // namespace scalewatch::clickhouse
