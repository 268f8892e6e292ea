// What a fleet's server does by itself: claims, owners that turn out to be two, and leaving.
#include <spdlog/spdlog.h>

// Boost 1.74's Asio needs std::exchange before its own headers in C++20.
#include <utility>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <future>
#include <memory>

#include "server/fleet/fleet.h"

namespace scalewatch::fleet {

namespace {

using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

constexpr milliseconds kLookAfter{1000};
constexpr milliseconds kFeed{100};    // the same while the feed was not told of a new run
constexpr int kQuiet = 20;            // times down_after, since a client came
constexpr milliseconds kLeave{5000};  // what was taken is committed by then, or never

}  // namespace

// ---- in the background ----------------------------------------------------------------------------------------------

void Fleet::look_after() {
  find_own();
  adopt_own();
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    woken_.wait_for(lock, unfed_ ? kFeed : kLookAfter,
                    [&] { return stopping_ || !came_back_.empty() || !lost_.empty() || std::exchange(wake_, false); });
    if (stopping_) return;
    const auto came_back = std::exchange(came_back_, {});
    const auto lost = std::exchange(lost_, {});
    if (draining_) continue;
    lock.unlock();
    for (const auto& [uid, now] : lost) {
      const auto run_lock = run_locks_.hold(now.row.name);
      if (!claimed_since(now)) yield(now.row.name, uid, now.instance);
    }
    for (Peer* peer : came_back) settle_with(*peer);
    look_after_runs();
    lock.lock();
  }
}

// Feeds what is new, and forgets what moved.
void Fleet::look_after_runs() {
  {
    const auto now = SteadyClock::now();
    const std::lock_guard lock(mutex_);
    std::erase_if(entries_, [&](const auto& each) {
      const Entry& entry = each.second;
      return entry.state == State::kElsewhere && now >= entry.until && entry.waiting.empty();
    });
  }
  forget_over();
  end_pages();
  if (parts_.shared == nullptr) return;
  adopt_own();
  feed_new();
  take_orphans();
}

bool Fleet::is_quiet(const std::string& run) const {
  if (holds_named(run)) return false;
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(run);
  if (found == entries_.end()) return false;
  return found->second.state == State::kHere && SteadyClock::now() - found->second.until >= kQuiet * options_.down_after;
}

bool Fleet::is_over(const std::optional<engine::RunRow>& row) const {
  if (!row) return true;  // no report came
  if (row->status == v1::RUN_STATUS_RUNNING || row->worst_open != v1::SEVERITY_UNSPECIFIED) return false;
  return parts_.feed == nullptr || parts_.feed->drain(row->run_uid, milliseconds(0));
}

void Fleet::forget_over() {
  if (SteadyClock::now() - looked_for_over_ < options_.down_after) return;
  looked_for_over_ = SteadyClock::now();
  std::vector<std::string> here;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [run, entry] : entries_) {
      if (entry.state == State::kHere) here.push_back(run);
    }
  }
  for (const std::string& run : here) {
    if (!is_quiet(run)) continue;
    const auto run_lock = run_locks_.hold(run);
    try {
      const auto row = parts_.store.find_named(run);
      if (!is_quiet(run) || !is_over(row)) continue;
      {
        const std::lock_guard lock(mutex_);
        const auto entry = entries_.find(run);
        if (entry == entries_.end() || entry->second.state != State::kHere) continue;  // somebody has come
        if (row && parts_.feed != nullptr && !entry->second.fed) continue;
        entries_.erase(entry);
      }
      if (row && parts_.feed != nullptr) parts_.feed->disown(row->run_uid);
    } catch (const engine::StoreError& error) {
      return spdlog::debug("fleet: runs that are over cannot be looked at: {}", error.what());
    }
  }
}

// Runs that began here, and those that went on here while the shared history was away: others may have had these since.
void Fleet::feed_new() {
  std::vector<std::string> unfed;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [run, entry] : entries_) {
      if (entry.state == State::kHere && !entry.fed) unfed.push_back(run);
    }
    unfed_ = !unfed.empty();
    if (!unfed_) return;
  }
  std::map<std::string, std::string> uids;  // by name
  for (const auto& overview : engine_->overviews()) uids[overview->run().name()] = overview->run().run_uid();
  for (const std::string& run : unfed) {
    const auto run_lock = run_locks_.hold(run);
    try {
      auto uid = uids.find(run);
      // The shared history was away for longer than the engine keeps a run that has ended.
      if (uid == uids.end()) {
        const auto row = parts_.store.find_named(run);
        if (!row) continue;  // it has no run_uid yet
        uid = uids.emplace(run, row->run_uid).first;
      }
      feed(run, uid->second);
    } catch (const engine::StoreError& error) {
      spdlog::debug("fleet: run '{}' is not claimed yet: {}", run, error.what());
      return;  // with the next round
    }
  }
}

void Fleet::feed(const std::string& run, const std::string& run_uid) {
  std::uint64_t term = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto it = entries_.find(run);
    if (stopping_ || draining_ || it == entries_.end() || it->second.state != State::kHere || it->second.fed) return;
    term = it->second.term;
  }
  if (term == 0) {
    auto there = parts_.shared->find_named(run);
    const bool others = there && is_others(*there, run_uid);
    if (!others) {
      term = parts_.shared->claim(run, self().name, term_here(run_uid));
      there = parts_.shared->find_named(run);
    }
    if (others || (there && !is_newest(*there, run_uid))) {
      if (!others) of_before_.push_back({run_uid});  // whether or not its clients come
      return yield(run, run_uid, others ? there->instance : kToBeDecided);
    }
  }
  parts_.feed->own(run_uid, run, term);
  const std::lock_guard lock(mutex_);
  if (const auto it = entries_.find(run); it != entries_.end()) {
    it->second.term = term;
    it->second.fed = true;
  }
}

// ---- leaving --------------------------------------------------------------------------------------------------------

void Fleet::drain() {
  {
    const std::lock_guard lock(mutex_);
    if (draining_ || stopping_ || !started_) return;
    draining_ = true;
  }
  struct Leaving {
    std::string run_uid;
    const Instance* to = nullptr;
    engine::Engine::Leave leave{};
  };
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::map<std::string, Leaving> runs;  // by name
    std::size_t waiting = 0;
  };
  const auto leaving = std::make_shared<Shared>();
  for (const auto& overview : engine_->overviews()) {
    const std::string& run = overview->run().name();
    const Peer* to = home_of(run, true);
    // What has ended stays with this server, and so do all runs when no other one is there.
    if (to == nullptr || overview->run().status() != v1::RUN_STATUS_RUNNING) continue;
    {
      const std::lock_guard lock(leaving->mutex);
      leaving->runs[run] = {overview->run().run_uid(), &to->instance()};
      ++leaving->waiting;
    }
    // Without a shared history the run's past stays here.
    const std::string& owner = parts_.shared == nullptr ? self().name : to->instance().name;
    engine_->hand_over(run, owner, [leaving, run](const engine::Engine::Leave& leave) {
      const std::lock_guard lock(leaving->mutex);
      leaving->runs[run].leave = leave;
      --leaving->waiting;
      leaving->changed.notify_all();
    });
  }
  std::unique_lock lock(leaving->mutex);
  leaving->changed.wait_for(lock, kLeave, [&] { return leaving->waiting == 0; });
  const auto until = SteadyClock::now() + options_.drain_for;
  for (auto& [run, each] : leaving->runs) {
    if (parts_.feed != nullptr) {
      const auto left = std::chrono::duration_cast<milliseconds>(until - SteadyClock::now());
      const bool whole = parts_.feed->drain(each.run_uid, std::max(left, milliseconds(0)));
      if (!whole)
        spdlog::error("fleet: run '{}' leaves before all of it is shared: the rest follows when this server is back", run);
      parts_.feed->disown(each.run_uid);
    }
    const auto run_lock = run_locks_.hold(run);
    if (parts_.alerts_go) parts_.alerts_go(each.run_uid);
  }
  // The others see by now that this server is going.
  std::this_thread::sleep_for(2 * options_.probe_every);
  for (const auto& [run, each] : leaving->runs) {
    if (each.leave) each.leave(each.to->address);
  }
  if (!leaving->runs.empty()) spdlog::info("fleet: {} runs were handed to other servers", leaving->runs.size());
  const std::lock_guard done(mutex_);
  std::erase_if(entries_, [](const auto& each) { return each.second.state == State::kHere; });
}

}  // namespace scalewatch::fleet
