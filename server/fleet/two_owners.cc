// A run that two servers had at once: one of them gives it up.
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

using SteadyClock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLeave{5000};  // what was taken is committed by then, or never
constexpr int kPatience = 5;  // times down_after: a stranger's run that stands still for so long is nobody's

}  // namespace

// This server took it again before it was told that another one had, or this is its own claim.
bool Fleet::claimed_since(const history::SharedRun& claim) {
  if (claim.instance == self().name && !holds_named(claim.row.name)) return true;  // nothing is here that could be given up
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(claim.row.name);
  if (entry == entries_.end() || entry->second.state != State::kHere) return false;
  return entry->second.term > claim.term || (entry->second.term == claim.term && claim.instance == self().name);
}

// Both may have taken runs while they could not see each other. With a shared history its terms decide; without one the
// heavier of the two keeps the run.
void Fleet::settle_with(Peer& peer) {
  if (parts_.shared != nullptr) return;  // SharedFeed::on_lost tells
  for (const auto& overview : engine_->overviews()) {
    const std::string& run = overview->run().name();
    if (weight_of(run, peer.instance().name) <= weight_of(run, self().name)) continue;
    const auto run_lock = run_locks_.hold(run);
    const auto answers = holders(run, true);
    if (std::find(answers.begin(), answers.end(), &peer) != answers.end())
      yield(run, overview->run().run_uid(), peer.instance().name);
  }
}

void Fleet::yield(const std::string& run, const std::string& run_uid, const std::string& owner) {
  const Peer* to = peers_.named(owner);
  const bool stranger = to == nullptr && owner != kToBeDecided;
  if (stranger) to = home_of(run, true);  // it may know more
  const std::string how = to == nullptr || stranger ? "where its clients find it" : "with " + owner;
  spdlog::error("fleet: run '{}' was with two servers at once; {} gives it up, and it goes on {}", run, self().name, how);
  if (stranger) {
    spdlog::error("fleet: run '{}' is with a server that calls itself {}, {}", run, owner,
                  owner == self().name ? "as this one does: fleet.self must be another one on each"
                                       : "which is not in this server's fleet.instances");
  }
  ++yielded_;
  const std::string& instance = owner == kToBeDecided || parts_.shared == nullptr ? self().name : owner;
  std::string address = self().address;
  if (to != nullptr) address = to->instance().address;
  if (to == nullptr && stranger) address.clear();  // clients go on with their lists
  bool holds_back = false;                         // whoever comes meanwhile waits, and is decided for afterwards
  {
    const std::lock_guard lock(mutex_);
    if (stranger) strangers_[run] = {};
    const auto [entry, fresh] = entries_.try_emplace(run);
    holds_back = fresh || entry->second.state != State::kDeciding;
    entry->second.state = State::kDeciding;
  }
  const auto left = std::make_shared<std::promise<void>>();
  engine_->hand_over(run, instance, [left, address](const engine::Engine::Leave& leave) {
    leave(address);
    left->set_value();
  });
  left->get_future().wait_for(kLeave);
  if (parts_.feed != nullptr) parts_.feed->disown(run_uid);
  alerts_go(run_uid);
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(run);
  if (!holds_back || entry == entries_.end()) return;
  if (entry->second.waiting.empty()) {
    entries_.erase(entry);
  } else {
    boost::asio::post(deciders_, [this, run] { decide(run); });
  }
}

// Nobody can be asked whether that one is there. While it is, it sends the run's row now and then.
bool Fleet::is_with_stranger(const history::SharedRun& there) {
  const auto now = SteadyClock::now();
  const std::lock_guard lock(mutex_);
  const auto found = strangers_.find(there.row.name);
  if (found == strangers_.end()) return false;
  auto& [version, since] = found->second;
  const bool moves = version != there.row_version;
  if (peers_.named(there.instance) != nullptr || (!moves && now - since >= kPatience * options_.down_after)) {
    strangers_.erase(found);
    return false;
  }
  if (moves) found->second = {there.row_version, now};
  return true;
}

}  // namespace scalewatch::fleet
