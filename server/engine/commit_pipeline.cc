#include "server/engine/commit_pipeline.h"

#include <spdlog/spdlog.h>

#include <iterator>
#include <utility>

namespace scalewatch::engine {

namespace {

using SteadyClock = std::chrono::steady_clock;

template <class Row>
void append(std::vector<Row>& to, std::vector<Row>& from) {
  if (to.empty()) {
    to.swap(from);
  } else {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  }
}

void append(CommitBatch& to, CommitBatch& from) {
  append(to.runs, from.runs);
  append(to.incarnations, from.incarnations);
  append(to.tables, from.tables);
  append(to.reports, from.reports);
  append(to.inputs, from.inputs);
  append(to.snapshots, from.snapshots);
  append(to.alerts, from.alerts);
  append(to.outbox, from.outbox);
  append(to.outbox_updates, from.outbox_updates);
  append(to.silences, from.silences);
}

// What does not wait for history.
void move_alerts(CommitBatch& to, CommitBatch& from) {
  append(to.alerts, from.alerts);
  append(to.outbox, from.outbox);
  append(to.outbox_updates, from.outbox_updates);
  append(to.silences, from.silences);
  from.alerts.clear();
  from.outbox.clear();
  from.outbox_updates.clear();
  from.silences.clear();
}

double seconds_since(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

}  // namespace

std::size_t CommitBatch::bytes() const {
  constexpr std::size_t kRow = 64;  // a row's fixed columns and its share of the index, roughly
  std::size_t total = kRow * (runs.size() + incarnations.size() + outbox_updates.size());
  for (const auto& row : runs) total += row.overview.size();
  for (const auto& row : incarnations) total += row.hello.size();
  for (const auto& row : tables) total += kRow + row.delta.size();
  for (const auto& row : reports) total += kRow + row.payload.size();
  for (const auto& row : inputs) total += kRow + row.payload.size();
  for (const auto& row : snapshots) total += kRow + row.state.size();
  for (const auto& row : alerts) total += kRow + row.alert.size();
  for (const auto& row : outbox) total += kRow + row.alert.size();
  for (const auto& row : silences) total += kRow + row.silence.size();
  return total;
}

CommitPipeline::CommitPipeline(Options options, HistoryStore& store, AlertOutbox& outbox)
    : options_(std::move(options)), store_(store), outbox_(outbox), thread_([this] { loop(); }) {}

CommitPipeline::~CommitPipeline() {
  stop();
}

void CommitPipeline::submit(Item item) {
  const std::size_t bytes = item.batch.bytes();
  bool wake = false;
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return;
    if (pending_.empty()) {
      oldest_pending_ = SteadyClock::now();
      wake = true;
    }
    wake = wake || (pending_bytes_ < options_.bytes && pending_bytes_ + bytes >= options_.bytes);
    pending_.push_back(std::move(item));
    pending_bytes_ += bytes;
  }
  if (wake) wake_.notify_one();
}

void CommitPipeline::stop() {
  {
    std::lock_guard lock(mutex_);
    if (!stopping_) stop_deadline_ = SteadyClock::now() + options_.give_up_at_stop;
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

CommitPipeline::Stats CommitPipeline::stats() const {
  std::lock_guard lock(mutex_);
  Stats out = stats_;
  if (in_flight_) {
    out.oldest_seconds = seconds_since(oldest_in_flight_);
  } else if (!pending_.empty()) {
    out.oldest_seconds = seconds_since(oldest_pending_);
  }
  return out;
}

void CommitPipeline::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return stopping_ || !pending_.empty(); });
    if (pending_.empty()) return;
    wake_.wait_until(lock, oldest_pending_ + options_.delay, [&] { return stopping_ || pending_bytes_ >= options_.bytes; });
    std::vector<Item> items = std::exchange(pending_, {});
    pending_bytes_ = 0;
    oldest_in_flight_ = oldest_pending_;
    in_flight_ = true;
    lock.unlock();

    CommitBatch batch;
    for (Item& item : items) append(batch, item.batch);
    const bool taken = batch.empty() || commit_until_taken(batch);
    if (taken) {
      outbox_.committed(batch);
      for (const Item& item : items) {
        if (item.on_durable) item.on_durable();
      }
      if (options_.after_commit) options_.after_commit();
    }

    lock.lock();
    in_flight_ = false;
    if (!taken) return;
  }
}

std::vector<std::function<void()>> CommitPipeline::take_alerts(CommitBatch& batch, CommitBatch& ahead) {
  std::vector<std::function<void()>> done;
  move_alerts(ahead, batch);
  std::erase_if(pending_, [&](Item& item) {
    if (item.batch.empty()) return false;  // something that waits for what came before it
    move_alerts(ahead, item.batch);
    if (!item.batch.empty()) return false;
    if (item.on_durable) done.push_back(std::move(item.on_durable));
    return true;
  });
  return done;
}

bool CommitPipeline::commit_until_taken(CommitBatch& batch) {
  CommitBatch ahead;
  std::vector<std::function<void()>> done;  // of items that are in `ahead` whole
  while (true) {
    move_alerts(batch, ahead);
    const auto start = SteadyClock::now();
    std::string error;
    try {
      store_.commit(batch);
    } catch (const StoreError& caught) {
      error = caught.what();
    }
    std::unique_lock lock(mutex_);
    const double seconds = seconds_since(start);
    stats_.durations.note(seconds);
    if (error.empty()) {
      if (stats_.degraded) spdlog::info("history commits again");
      ++stats_.commits;
      stats_.bytes += batch.bytes();
      stats_.degraded = false;
      lock.unlock();
      for (const auto& call : done) call();
      return true;
    }
    if (!stats_.degraded) spdlog::error("history pauses: {}; clients keep what is not acked; trying again", error);
    ++stats_.errors;
    stats_.error = error;
    stats_.degraded = true;
    const auto until = SteadyClock::now() + options_.retry;
    auto more = take_alerts(batch, ahead);
    done.insert(done.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
    lock.unlock();
    if (!ahead.empty() && store_.commit_alerts(ahead)) {
      outbox_.committed(ahead);
      ahead = {};
      for (const auto& call : std::exchange(done, {})) call();
    }
    lock.lock();
    wake_.wait_until(lock, until, [&] { return stopping_; });
    if (stopping_ && SteadyClock::now() >= stop_deadline_) {
      spdlog::error("history still refuses at the end: {}; what was not acked stays with the clients", error);
      return false;
    }
    lock.unlock();
    if (SteadyClock::now() < until) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace scalewatch::engine
