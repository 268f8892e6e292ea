// What a server that starts again does with the runs that its store has.
#include <spdlog/spdlog.h>

#include <optional>
#include <set>
#include <string>
#include <utility>

#include "server/fleet/fleet.h"
#include "server/fleet/run_list.h"

namespace scalewatch::fleet {

namespace {

constexpr std::size_t kMaxOwn = 10'000;  // that run, and that were lost

}  // namespace

// Runs of before a restart: those that nobody took meanwhile go on, whether or not their clients come back. Of those that were
// lost it is enough to know whose they are: they come to memory when it is time to say that they are gone for good. Those that
// ended before all of them was shared are only fed. Where commits are missing, all are looked at: others may have gone on
// with any run, and so may this server itself.
void Fleet::find_own() {
  std::set<std::string> listed;
  const auto add = [&](const std::string& uid, bool look = false) {
    if (listed.insert(uid).second) of_before_.push_back({uid, look});
  };
  try {
    for (const engine::RunRow& row : parts_.store.list_running(kMaxOwn)) add(row.run_uid);
    for (const engine::RunRow& row : parts_.store.list_lost(kMaxOwn)) add(row.run_uid);
    if (parts_.feed == nullptr) return;
    for (const std::string& uid : parts_.feed->behind()) add(uid);
    if (!parts_.doubted) return;
    for (const std::string& uid : parts_.doubted()) {
      add(uid, true);
      doubted_.insert(uid);
    }
  } catch (const engine::StoreError& error) {
    spdlog::error("fleet: the runs of before cannot be read: {}", error.what());
  }
}

void Fleet::adopt_own() {
  for (; !of_before_.empty(); of_before_.pop_front()) {
    const auto& [uid, look] = of_before_.front();
    std::string name = uid;
    try {
      const auto found = parts_.store.find_run(uid);
      if (!found || found->run_uid != uid) continue;
      name = found->name;
      const auto run_lock = run_locks_.hold(name);
      {
        const std::lock_guard lock(mutex_);
        if (stopping_ || draining_) return;
        if (entries_.contains(name)) continue;  // a client was faster
      }
      const auto row = parts_.store.find_run(uid);  // as it is now that nobody changes it
      if (row && !adopt(*row, look)) return;        // with the next round
    } catch (const engine::StoreError& error) {
      // Its clients bring it back.
      spdlog::warn("fleet: run '{}' of before waits for its clients: {}", name, error.what());
      const std::lock_guard lock(mutex_);
      const auto entry = entries_.find(name);
      if (entry != entries_.end() && entry->second.state != State::kDeciding) entries_.erase(entry);
    }
  }
}

bool Fleet::adopt(const engine::RunRow& row, bool look) {
  // What another one has is no more to be shared from here.
  if (row.status == v1::RUN_STATUS_FINISHED && !is_own(row)) {
    trust(row.run_uid);
    return true;
  }
  std::optional<history::SharedRun> there;
  bool newest = true;
  try {
    if (parts_.shared != nullptr) there = parts_.shared->find_run(row.run_uid);
    // It ended before it was shared, and its clients began it anew elsewhere, from their first report.
    if (!there && parts_.shared != nullptr) there = parts_.shared->find_named(row.name);
    newest = !there || is_newest(*there, row.run_uid);
  } catch (const engine::StoreError& error) {
    spdlog::debug("fleet: whose runs of before are is not known yet: {}", error.what());
    return false;
  }
  const bool taken = (there && is_others(*there, row.run_uid)) || !holders(row.name, true).empty();
  if (taken) {
    // What is here is an older state of the same run, or of one that begins anew elsewhere.
    note_gone(row, there && there->row.run_uid == row.run_uid ? there->instance : kNobody);
    trust(row.run_uid);
    return true;
  }
  // It was being brought here when this server ended, or the store went back to a backup.
  if (!newest) {
    if (!bring_back(row.name)) later_.push_back({row.run_uid, look});
    return true;
  }
  trust(row.run_uid);
  if (look) return true;
  const bool runs = row.status == v1::RUN_STATUS_RUNNING;
  if (!runs && parts_.shared == nullptr) return true;
  const bool claimed = there && there->instance == self().name && there->term >= term_here(row.run_uid);
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || draining_) return true;
    const Entry here{
        .state = State::kHere, .until = std::chrono::steady_clock::now(), .term = claimed ? there->term : 0, .fed = claimed};
    if (!entries_.try_emplace(row.name, here).second) return true;  // a client has come, and waits for this to end
    unfed_ = unfed_ || !claimed;
  }
  if (claimed) parts_.feed->own(row.run_uid, row.name, there->term);
  if (runs) engine_->adopt(row.name);
  return true;
}

void Fleet::trust(const std::string& run_uid) {
  if (doubted_.erase(run_uid) > 0) parts_.trust(run_uid);
}

bool Fleet::bring_back(const std::string& run) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || draining_ || !entries_.try_emplace(run).second) return true;  // a client was faster
  }
  Entry made;
  const Answer answer = take(run, made);
  settle(run, std::move(made), answer);
  if (answer.kind != Answer::kHere) {
    const std::lock_guard lock(mutex_);
    const auto sent_on = entries_.find(run);  // whoever would have come; and nobody has
    if (sent_on != entries_.end() && sent_on->second.state == State::kElsewhere) entries_.erase(sent_on);
    return false;
  }
  const auto row = parts_.store.find_named(run);
  if (row && row->status == v1::RUN_STATUS_RUNNING) engine_->adopt(run);
  return true;
}

// What is stored here of a run that another server has is an older state of it, which lists leave out.
void Fleet::note_gone(engine::RunRow row, const std::string& owner) {
  alerts_go(row.run_uid);
  v1::GetRunResponse overview;
  if (!overview.ParseFromString(row.overview)) return;
  overview.mutable_run()->set_instance(owner.empty() ? kNobody : owner);
  row.overview = overview.SerializeAsString();
  engine::CommitBatch batch;
  batch.runs.push_back(std::move(row));
  engine_->submit(std::move(batch), {});
}

// And its server did, too, before it could say so there.
bool Fleet::ended_here(const std::string& run_uid) const {
  const auto row = parts_.store.find_run(run_uid);
  if (!row || row->run_uid != run_uid || row->status == v1::RUN_STATUS_RUNNING) return false;
  const std::lock_guard lock(mutex_);
  return !entries_.contains(row->name);
}

}  // namespace scalewatch::fleet
