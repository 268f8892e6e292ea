#include "server/engine/commit_pipeline.h"

#include <spdlog/spdlog.h>

#include <iterator>
#include <utility>

#include "server/engine/commit_batch.h"

namespace scalewatch::engine {

namespace {

bool has_history(const CommitBatch& batch) {
  return !batch.reports.empty() || !batch.inputs.empty();
}

double seconds_since(CommitPipeline::SteadyClock::time_point start) {
  return std::chrono::duration<double>(CommitPipeline::SteadyClock::now() - start).count();
}

}  // namespace

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
  return stats_;
}

CommitPipeline::Health CommitPipeline::health() const {
  std::lock_guard lock(mutex_);
  Health out = store_health();
  out.degraded = out.degraded || (!refused_.empty() && !taken_since_refused_);
  return out;
}

CommitPipeline::Health CommitPipeline::store_health() const {
  Health out = health_;
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
    wake_.wait_until(lock, next_retry(), [&] { return stopping_ || !pending_.empty(); });
    const bool last = stopping_ && pending_.empty();
    Round round;
    if (!pending_.empty()) {
      wake_.wait_until(lock, oldest_pending_ + options_.delay, [&] { return stopping_ || pending_bytes_ >= options_.bytes; });
      round.items = std::exchange(pending_, {});
      pending_bytes_ = 0;
      oldest_in_flight_ = oldest_pending_;
      in_flight_ = true;
    }
    lock.unlock();

    const bool taken = commit(round);
    if (taken) {
      retry_refused(last);
      if (options_.after_commit) options_.after_commit();
    }

    lock.lock();
    in_flight_ = false;
    if (!taken || last) return;
  }
}

bool CommitPipeline::commit(Round& round) {
  CommitBatch batch;
  for (Item& item : round.items) append(batch, item.batch);
  hold_back(batch);
  if (!batch.empty() && !commit_until_taken(std::move(batch), round)) return false;
  settle(round.items, round.refused);
  return true;
}

std::optional<StoreError> CommitPipeline::try_commit(const CommitBatch& batch) {
  const auto start = SteadyClock::now();
  std::optional<StoreError> refusal;
  try {
    store_.commit(batch);
  } catch (const StoreError& error) {
    refusal = error;
  }
  {
    std::lock_guard lock(mutex_);
    stats_.durations.note(seconds_since(start));
    if (refusal) {
      ++stats_.errors;
    } else {
      ++stats_.commits;
      stats_.bytes += batch.bytes();
      taken_since_refused_ = taken_since_refused_ || has_history(batch);
    }
  }
  if (!refusal) outbox_.committed(batch);
  return refusal;
}

std::optional<StoreError> CommitPipeline::commit_by_run(CommitBatch& batch, Round& round) {
  std::optional<StoreError> not_now;
  bool any_taken = false;
  for (auto& [run, part] : by_run(std::exchange(batch, {}))) {
    const auto refusal = not_now ? not_now : try_commit(part);
    if (!refusal) {
      any_taken = any_taken || has_history(part);
    } else if (refusal->retryable) {
      not_now = refusal;
      append(batch, part);
    } else {
      refuse(run, std::move(part), refusal->what());
      round.refused.insert(run);
    }
  }
  if (!round.refused.empty()) {
    std::lock_guard lock(mutex_);
    taken_since_refused_ = any_taken;
  }
  return not_now;
}

void CommitPipeline::take_alerts(CommitBatch& batch, CommitBatch& ahead, std::vector<Item>& done) {
  move_alerts(ahead, batch);
  std::erase_if(pending_, [&](Item& item) {
    if (item.batch.empty()) return false;  // something that waits for what came before it
    move_alerts(ahead, item.batch);
    if (!item.batch.empty()) return false;
    done.push_back(std::move(item));
    return true;
  });
}

bool CommitPipeline::commit_until_taken(CommitBatch batch, Round& round) {
  CommitBatch ahead;
  std::vector<Item> done;  // that are in `ahead` whole
  while (true) {
    move_alerts(batch, ahead);
    auto refusal = try_commit(batch);
    if (refusal && !refusal->retryable) refusal = commit_by_run(batch, round);
    std::unique_lock lock(mutex_);
    if (!refusal) {
      if (health_.degraded) spdlog::info("history commits again");
      health_ = {};
      std::move(done.begin(), done.end(), std::back_inserter(round.items));
      return true;
    }
    if (!health_.degraded) spdlog::error("history pauses: {}; clients keep what is not acked; trying again", refusal->what());
    health_.error = refusal->what();
    health_.degraded = true;
    const auto until = SteadyClock::now() + options_.retry;
    take_alerts(batch, ahead, done);
    lock.unlock();
    if (!ahead.empty() && store_.commit_alerts(ahead)) {
      outbox_.committed(ahead);
      ahead = {};
      settle(done, {});
    }
    lock.lock();
    wake_.wait_until(lock, until, [&] { return stopping_; });
    if (stopping_ && SteadyClock::now() >= stop_deadline_) {
      spdlog::error("history still refuses at the end: {}; what was not acked stays with the clients", refusal->what());
      return false;
    }
    lock.unlock();
    if (SteadyClock::now() < until) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace scalewatch::engine
