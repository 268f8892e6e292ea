// Runs whose rows the store refuses for good while it takes those of others.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "server/engine/commit_batch.h"
#include "server/engine/commit_pipeline.h"

namespace scalewatch::engine {

namespace {

constexpr int kLongestPause = 60;       // as many times the usual pause between two tries
constexpr std::chrono::hours kIdle{1};  // nothing is due

// Of a row that is replaced by the next one only the newest counts, and there may be many.
void add(CommitBatch& to, CommitBatch& from) {
  append(to, from);
  if (to.runs.size() > 1) to.runs.erase(to.runs.begin(), to.runs.end() - 1);
}

std::string name_of(const std::string& run) {
  return run.empty() ? "silences" : "run " + run;
}

}  // namespace

void CommitPipeline::refuse(const std::string& run, CommitBatch part, const std::string& why) {
  // As on a full disk: alerts go ahead, unless it is they that are refused.
  CommitBatch alerts;
  move_alerts(alerts, part);
  if (!alerts.empty() && store_.commit_alerts(alerts)) {
    outbox_.committed(alerts);
  } else {
    append(part, alerts);
  }
  const auto now = SteadyClock::now();
  std::lock_guard lock(mutex_);
  const auto [it, fresh] = refused_.try_emplace(run);
  Refused& refused = it->second;
  if (fresh) {
    spdlog::error("history of {} pauses: {}; clients keep what is not acked, others go on; trying again", name_of(run), why);
    refused.since = now;
    refused.pause = options_.retry;
    refused.again_at = now + refused.pause;
  }
  refused.error = why;
  add(refused.batch, part);
}

void CommitPipeline::hold_back(CommitBatch& batch) {
  if (refused_.empty()) return;
  CommitBatch rest;
  for (auto& [run, part] : by_run(std::exchange(batch, {}))) {
    move_alerts(rest, part);
    if (part.empty()) continue;
    if (const auto it = refused_.find(run); it != refused_.end()) {
      add(it->second.batch, part);
    } else {
      append(rest, part);
    }
  }
  batch = std::move(rest);
}

void CommitPipeline::retry_refused(bool last) {
  const auto now = SteadyClock::now();
  for (auto it = refused_.begin(); it != refused_.end();) {
    Refused& refused = it->second;
    if (!last && now < refused.again_at) {
      ++it;
      continue;
    }
    const std::string what = name_of(it->first);
    const auto refusal = try_commit(refused.batch);
    std::unique_lock lock(mutex_);
    if (refusal) {
      if (last) spdlog::error("history of {} is still refused at the end: {}", what, refusal->what());
      refused.pause = std::min(refused.pause * 2, options_.retry * kLongestPause);
      refused.again_at = SteadyClock::now() + refused.pause;
      refused.error = refusal->what();
      ++it;
      continue;
    }
    spdlog::info("history of {} goes on", what);
    const auto done = std::move(refused.done);
    it = refused_.erase(it);
    lock.unlock();
    for (const auto& call : done) call();
  }
}

void CommitPipeline::settle(std::vector<Item>& items, const std::set<std::string>& refused) {
  for (Item& item : std::exchange(items, {})) {
    decltype(refused_)::node_type let_go;  // ends after the lock
    if (item.leaves) {
      std::lock_guard lock(mutex_);
      let_go = refused_.extract(item.run);
    }
    if (!item.on_durable) continue;
    // Silences that come later do not wait for those that are refused.
    const auto it = item.run.empty() && !refused.contains(item.run) ? refused_.end() : refused_.find(item.run);
    if (it == refused_.end()) {
      item.on_durable();
    } else {
      it->second.done.push_back(std::move(item.on_durable));
    }
  }
}

CommitPipeline::SteadyClock::time_point CommitPipeline::next_retry() const {
  auto next = SteadyClock::now() + kIdle;
  for (const auto& [run, refused] : refused_) next = std::min(next, refused.again_at);
  return next;
}

CommitPipeline::Health CommitPipeline::health(const std::string& run_uid) const {
  std::lock_guard lock(mutex_);
  const auto it = refused_.find(run_uid);
  if (it == refused_.end()) return store_health();
  const std::chrono::duration<double> age = SteadyClock::now() - it->second.since;
  return {age.count(), true, it->second.error};
}

}  // namespace scalewatch::engine
