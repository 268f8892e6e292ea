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
constexpr milliseconds kAsk{3000};   // of all alerts of a run, and of the runs that are asked for in one round
constexpr std::size_t kAtOnce = 32;  // each takes a thread there

// Which of them it knows; absent: it can't be known now.
std::optional<std::set<std::string>> known_to(Peer& owner, const std::vector<std::string>& ids) {
  const auto until = SteadyClock::now() + kAsk;
  std::set<std::string> known;
  for (std::size_t first = 0; first < ids.size(); first += kAtOnce) {
    const std::size_t count = std::min(kAtOnce, ids.size() - first);
    std::vector<v1::GetAlertRequest> requests(count);
    for (std::size_t i = 0; i < count; ++i) requests[i].set_id(ids[first + i]);
    const auto left = std::chrono::duration_cast<milliseconds>(until - SteadyClock::now());
    if (left.count() <= 0) return std::nullopt;
    std::size_t next = 0;
    const auto answers = ask<v1::GetAlertResponse>(
        std::vector<Peer*>(count, &owner), kForwarded, left, [&](Peer& peer, auto* context, auto* out, auto done) {
          peer.alerts().async()->GetAlert(context, &requests[next++], out, std::move(done));
        });
    for (std::size_t i = 0; i < count; ++i) {
      const grpc::Status& status = answers[i].status;
      if (status.ok()) {
        known.insert(requests[i].id());
      } else if (owner.refused(status) || status.error_code() != grpc::StatusCode::NOT_FOUND) {
        return std::nullopt;
      }
    }
  }
  return known;
}

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
  const auto begun = SteadyClock::now();
  std::vector<std::pair<std::string, SteadyTime>> due;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [uid, when] : given_up_) {
      if (begun >= when) due.emplace_back(uid, when);
    }
  }
  for (const auto& [uid, when] : due) {
    if (SteadyClock::now() - begun >= kAsk) return;  // the rest with the next round
    bool done = false;
    try {
      const auto row = parts_.store.find_run(uid);
      done = !row || row->run_uid != uid || end_pages_of(*row, when);
    } catch (const engine::StoreError& error) {
      spdlog::debug("fleet: alerts of a run that went cannot be looked at: {}", error.what());
    }
    const std::lock_guard lock(mutex_);
    const auto found = given_up_.find(uid);
    if (found == given_up_.end() || found->second != when) continue;  // it came, and went again
    if (done) {
      given_up_.erase(found);
    } else {
      found->second = SteadyClock::now() + kSettled * options_.down_after;
    }
  }
}

bool Fleet::end_pages_of(const engine::RunRow& row, SteadyTime due) {
  if (!parts_.left_open || engine_->holds(row.run_uid)) return true;
  const auto asked = parts_.left_open(row.run_uid);
  if (asked.empty()) return true;
  // Others may take their time, and clients of the run wait for its lock.
  const auto known = known_elsewhere(row, asked);
  if (!known) return false;
  const auto run_lock = run_locks_.hold(row.name);
  if (engine_->holds(row.run_uid)) return true;
  {
    const std::lock_guard lock(mutex_);
    const auto found = given_up_.find(row.run_uid);
    if (found == given_up_.end() || found->second != due) return true;
  }
  auto ids = parts_.left_open(row.run_uid);
  std::erase_if(ids, [&](const std::string& id) {
    return known->contains(id) || std::find(asked.begin(), asked.end(), id) == asked.end();
  });
  if (ids.empty()) return true;
  spdlog::warn("fleet: run '{}' went without {} alerts that were told here: they are over", row.name, ids.size());
  parts_.end_alerts(ids);
  return true;
}

// Whoever has the run knows more than it has shared. Of one that is gone only what it shared counts.
std::optional<std::set<std::string>> Fleet::known_elsewhere(const engine::RunRow& row, const std::vector<std::string>& ids) {
  Peer* owner = nullptr;
  if (parts_.shared != nullptr) {
    auto shared = parts_.shared->find_run(row.run_uid);
    if (!shared) shared = parts_.shared->find_named(row.name);
    if (shared) owner = peers_.named(shared->instance);
    if (owner == nullptr || !owner->alive()) return parts_.shared->alert_ids(row.run_uid);
  } else if (const auto found = holders(row.name); !found.empty()) {
    owner = found.front();
  }
  if (owner == nullptr) return std::set<std::string>();
  return known_to(*owner, ids);
}

}  // namespace scalewatch::fleet
