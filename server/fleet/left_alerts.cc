// Alerts of a run that goes to another server and does not take them along: they had not reached the shared history.
//
// Whoever was told of an alert hears of its end. Mostly its run finds it again at the next server, under the same key, and then
// ends it there. What it does not find again nobody knows of but this server, once it is back; with its disk lost, nobody.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "server/fleet/fleet.h"

namespace scalewatch::fleet {

namespace {

using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

// Times down_after. By then clients have brought the next owner what they kept, or stayed away. What it still finds later, at
// the moment at which it is asked here, could be ended under its hands: for that this is long.
constexpr int kSettled = 20;
constexpr milliseconds kAsk{3000};

}  // namespace

void Fleet::alerts_go(const std::string& run_uid) {
  if (parts_.alerts_go) parts_.alerts_go(run_uid);
  const std::lock_guard lock(mutex_);
  given_up_[run_uid] = SteadyClock::now() + kSettled * options_.down_after;
}

bool Fleet::take_back(const std::string& run_uid) {
  {
    const std::lock_guard lock(mutex_);
    if (given_up_.erase(run_uid) == 0) return true;
  }
  if (!flush()) {
    const std::lock_guard lock(mutex_);
    given_up_[run_uid] = SteadyClock::now();
    return false;
  }
  if (parts_.alerts_come) parts_.alerts_come(run_uid);
  return true;
}

void Fleet::end_pages() {
  std::vector<std::string> due;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [uid, when] : given_up_) {
      if (SteadyClock::now() >= when) due.push_back(uid);
    }
  }
  for (const std::string& uid : due) {
    bool done = false;
    try {
      const auto row = parts_.store.find_run(uid);
      done = !row || row->run_uid != uid || end_pages_of(*row);
    } catch (const engine::StoreError& error) {
      spdlog::debug("fleet: alerts of a run that went cannot be looked at: {}", error.what());
    }
    const std::lock_guard lock(mutex_);
    if (done) {
      given_up_.erase(uid);
    } else {
      given_up_[uid] = SteadyClock::now() + kSettled * options_.down_after;
    }
  }
}

bool Fleet::end_pages_of(const engine::RunRow& row) {
  const auto run_lock = run_locks_.hold(row.name);
  if (!parts_.left_open || engine_->holds(row.run_uid)) return true;
  auto ids = parts_.left_open(row.run_uid);
  if (ids.empty()) return true;
  // Whoever has the run knows more than it has shared. Of one that is gone only what it shared counts.
  Peer* owner = nullptr;
  std::set<std::string> there;
  if (parts_.shared != nullptr) {
    auto shared = parts_.shared->find_run(row.run_uid);
    if (!shared) shared = parts_.shared->find_run(row.name);
    if (shared) owner = peers_.named(shared->instance);
    if (owner == nullptr || !owner->alive()) there = parts_.shared->alert_ids(row.run_uid);
  } else if (const auto found = holders(row.name); !found.empty()) {
    owner = found.front();
  }
  if (owner != nullptr && owner->alive()) {
    for (const std::string& id : ids) {
      v1::GetAlertRequest request;
      request.set_id(id);
      v1::GetAlertResponse response;
      grpc::ClientContext context;
      owner->prepare(context, kForwarded, kAsk);
      const grpc::Status status = owner->alerts().GetAlert(&context, request, &response);
      if (status.ok()) {
        there.insert(id);
      } else if (owner->refused(status) || status.error_code() != grpc::StatusCode::NOT_FOUND) {
        return false;
      }
    }
  }
  std::erase_if(ids, [&](const std::string& id) { return there.contains(id); });
  if (ids.empty()) return true;
  spdlog::warn("fleet: run '{}' went without {} alerts that were told here: they are over", row.name, ids.size());
  parts_.end_alerts(ids);
  return true;
}

}  // namespace scalewatch::fleet
