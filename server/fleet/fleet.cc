#include "server/fleet/fleet.h"

#include <spdlog/spdlog.h>

// Boost 1.74's Asio needs std::exchange before its own headers in C++20.
#include <utility>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <future>
#include <memory>

namespace scalewatch::fleet {

namespace {

using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

constexpr milliseconds kAskHolders{1000};
// A run's place elsewhere is believed for so long: what moves meanwhile costs its clients one connection more.
constexpr milliseconds kBelieve{1000};
constexpr milliseconds kVerified{200};  // the same of a run that is here, where others may claim it
constexpr milliseconds kFlush{5000};    // a store that takes so long is full, or its disk is
constexpr std::size_t kMaxEntries = 100'000;
constexpr std::size_t kMaxWaiting = 100'000;  // clients of one run

constexpr char kNoRoom[] = "the server's own store takes no run now, its disk may be full: connect to another server";

engine::RunPlacement::Answer not_now(const std::string& why) {
  return {engine::RunPlacement::Answer::kNotNow, {}, why};
}

}  // namespace

Fleet::Fleet(Options options, Peers& peers, Parts parts)
    : options_(std::move(options)), peers_(peers), parts_(std::move(parts)), room_(parts_.has_room) {}

Fleet::~Fleet() {
  stop();
}

void Fleet::start(engine::Engine& engine) {
  engine_ = &engine;
  if (parts_.feed != nullptr) {
    parts_.feed->on_lost([this](const std::string& run_uid, const history::SharedRun& now) {
      const std::lock_guard lock(mutex_);
      lost_.emplace_back(run_uid, now);
      woken_.notify_all();
    });
  }
  peers_.start([this](Peer& peer, bool alive) {
    const std::lock_guard lock(mutex_);
    if (alive) came_back_.push_back(&peer);
    woken_.notify_all();
  });
  {
    const std::lock_guard lock(mutex_);
    started_ = true;
  }
  thread_ = std::thread([this] { look_after(); });
}

void Fleet::stop() {
  std::vector<Done> waiting;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(stopping_, true)) return;
    for (auto& [name, entry] : entries_) {
      std::move(entry.waiting.begin(), entry.waiting.end(), std::back_inserter(waiting));
      entry.waiting.clear();
    }
  }
  woken_.notify_all();
  for (const Done& done : waiting) done(not_now("the server is shutting down: connect again later"));
  if (parts_.shared != nullptr) parts_.shared->cancel();
  if (thread_.joinable()) thread_.join();
  deciders_.join();
  if (parts_.feed != nullptr) parts_.feed->on_lost({});
  peers_.stop();
}

// ---- a client comes -------------------------------------------------------------------------------------------------

void Fleet::enter(const std::string& run, Done done) {
  Answer answer;
  {
    const std::lock_guard lock(mutex_);
    if (!started_ || stopping_) {
      answer = not_now(stopping_ ? "the server is shutting down: connect again later" : "the server is starting");
    } else if (!entries_.contains(run) && entries_.size() >= kMaxEntries) {
      answer = not_now("too many runs are looked for at once");
    } else {
      const auto [it, fresh] = entries_.try_emplace(run);
      Entry& entry = it->second;
      const bool old = SteadyClock::now() >= entry.until;
      const bool stale = (entry.state == State::kElsewhere && (old || !entry.owner->alive())) ||
                         (entry.state == State::kHere && old && parts_.shared != nullptr && !draining_);
      if (draining_ && entry.state == State::kHere) {
        answer = not_now("the run is being handed to another server");
      } else if (entry.state == State::kHere && !stale) {
        answer = {};
      } else if (entry.state == State::kElsewhere && !stale) {
        answer = send_to(*entry.owner, run, entry);
      } else {
        if (entry.waiting.size() < kMaxWaiting) {
          entry.waiting.push_back(std::move(done));
          done = nullptr;
        }
        if (fresh || stale) {
          entry.state = State::kDeciding;
          boost::asio::post(deciders_, [this, run] { decide(run); });
        }
        answer = not_now("too many clients wait for this run at once");
      }
    }
  }
  if (done) done(answer);
}

void Fleet::decide(const std::string& run) {
  const auto run_lock = run_locks_.hold(run);
  Entry made;
  Answer answer = decision(run, made);
  settle(run, std::move(made), std::move(answer));
}

void Fleet::settle(const std::string& run, Entry made, Answer answer) {
  std::vector<Done> waiting;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) answer = not_now("the server is shutting down: connect again later");
    waiting = std::exchange(entries_[run].waiting, {});
    if (answer.kind == Answer::kNotNow) {
      entries_.erase(run);
    } else {
      unfed_ = unfed_ || (parts_.shared != nullptr && made.state == State::kHere && !made.fed);
      entries_[run] = std::move(made);
      if (unfed_) {
        wake_ = true;
        woken_.notify_all();
      }
    }
  }
  for (const Done& done : waiting) done(answer);  // with kHere it is in memory afterwards
}

Fleet::Answer Fleet::send_to(Peer& peer, const std::string& run, Entry& entry) {
  ++moved_;
  if (entry.state != State::kElsewhere) {
    entry.state = State::kElsewhere;
    entry.owner = &peer;
    entry.until = SteadyClock::now() + kBelieve;
  }
  return {Answer::kElsewhere, peer.instance().address,
          "run '" + run + "' is with server " + peer.instance().name + ": connect to " + peer.instance().address};
}

Fleet::Answer Fleet::decision(const std::string& run, Entry& entry) {
  bool draining = false;
  {
    const std::lock_guard lock(mutex_);
    draining = draining_;
  }
  if (!draining && holds_named(run) && still_own(run)) {
    const std::lock_guard lock(mutex_);
    entry.state = State::kHere;
    entry.term = entries_[run].term;
    entry.fed = entries_[run].fed;
    entry.until = SteadyClock::now() + kVerified;
    return {};
  }
  if (const auto found = holders(run, true); !found.empty()) return send_to(*found.front(), run, entry);
  if (Peer* home = home_of(run, draining)) return send_to(*home, run, entry);
  if (draining) return not_now("the server is shutting down, and no other one is there: connect again later");
  return take(run, entry);
}

// A server that came back may have gone on with a run at the moment at which another one claimed it, and with no report to
// share it does not learn of that. So its first clients wait for a look.
bool Fleet::still_own(const std::string& run) {
  if (parts_.shared == nullptr) return true;
  std::optional<history::SharedRun> there;
  std::optional<engine::RunRow> local;
  try {
    there = parts_.shared->find_named(run);
    local = parts_.store.find_named(run);
  } catch (const engine::StoreError&) {
    return true;  // it can't be told, and what is here goes on
  }
  std::uint64_t term = 0;
  {
    const std::lock_guard lock(mutex_);
    term = entries_[run].term;
  }
  // Two are called so.
  const bool namesakes = there && there->instance == self().name && term != 0 && there->term > term;
  if (!there || (!namesakes && !is_others(*there, local ? local->run_uid : std::string()))) return true;
  yield(run, local ? local->run_uid : there->row.run_uid, there->instance);
  return false;
}

bool Fleet::is_own(const engine::RunRow& row) const {
  v1::GetRunResponse overview;
  if (!overview.ParseFromString(row.overview)) return false;
  return overview.run().instance().empty() || overview.run().instance() == self().name;
}

bool Fleet::is_newest(const history::SharedRun& there, const std::string& local_uid) const {
  if (there.row.run_uid != local_uid) return false;
  const auto term = parts_.feed->term_of(local_uid);
  if (!term) return true;
  return there.row_term <= *term && parts_.shared->last_place(local_uid, *term) <= parts_.last_place(local_uid);
}

std::uint64_t Fleet::term_here(const std::string& run_uid) const {
  return parts_.feed->term_of(run_uid).value_or(0);
}

bool Fleet::is_others(const history::SharedRun& there, const std::string& local_uid) const {
  if (there.instance.empty() || there.instance == self().name) return false;
  return there.row.run_uid != local_uid || there.term >= term_here(local_uid);
}

// Nobody has it, and it is this server's by its name.
Fleet::Answer Fleet::take(const std::string& run, Entry& entry) {
  entry.state = State::kHere;
  entry.until = SteadyClock::now() + kVerified;
  if (parts_.shared == nullptr) return {};
  std::optional<engine::RunRow> local;
  bool brings = false;
  try {
    local = parts_.store.find_named(run);
    auto there = parts_.shared->find_named(run);
    if (there && is_with_stranger(*there)) {
      Peer* next = home_of(run, true);  // it may know more
      if (next != nullptr) return send_to(*next, run, entry);
      return not_now("the run is with another server that is called " + there->instance + ": connect to that one");
    }
    const std::uint64_t known = local ? term_here(local->run_uid) : 0;
    const bool here = local && (!there || is_newest(*there, local->run_uid));
    const bool own = here && there && there->instance == self().name && there->term >= known;
    if (!here && !room_.is_there()) {
      // Where none has any, a run that is new is watched all the same.
      if (Peer* other = with_room(run)) return send_to(*other, run, entry);
    }
    // Before anything is read: see SharedHistory::claim().
    entry.term = own ? there->term : parts_.shared->claim(run, self().name, known);
    if (!own) there = parts_.shared->find_named(run);
    if (there && there->term > entry.term) return not_now("another server takes the run at this moment");
    // A new one has no run_uid yet: the feed is told by feed_new().
    if (!there && !local) return {};
    const std::string uid = there ? there->row.run_uid : local->run_uid;
    if (there && !(local && is_newest(*there, local->run_uid))) {
      brings = true;
      if (!import(*there, entry.term)) return not_now("what is shared of the run is not whole here yet: connect again later");
      ++taken_over_;
      spdlog::warn("fleet: run '{}' is taken over by server {} (term {})", run, self().name, entry.term);
    } else if (!take_back(uid)) {
      return not_now("the store does not take what the run was given up with: connect again later");
    }
    history::in_own_store([&] { parts_.feed->own(uid, run, entry.term); });
    entry.fed = true;
    return {};
  } catch (const history::OwnStoreError& error) {
    if (!brings) return {};  // all of it is here, and it is fed once the store takes that
    spdlog::warn("fleet: run '{}' is not taken: {}", run, error.what());
    room_.refused();
    Peer* other = with_room(run);
    return other == nullptr ? not_now(kNoRoom) : send_to(*other, run, entry);
  } catch (const engine::StoreError& error) {
    spdlog::warn("fleet: the shared history of run '{}' cannot be read: {}", run, error.what());
    // What began here goes on here; what may have begun elsewhere, or gone on there, would lose that.
    if (!parts_.required || (local && is_own(*local))) return {};
    return not_now(std::string("the shared history cannot be read now: ") + error.what());
  }
}

bool Fleet::import(const history::SharedRun& there, std::uint64_t term) {
  const std::string& uid = there.row.run_uid;
  // Whoever has alerts of it in mind would change those that are brought; and what was staged must not come behind them.
  const auto local = parts_.store.find_named(there.row.name);
  const bool replaces = local && local->run_uid != uid;
  if (parts_.alerts_go) {
    parts_.alerts_go(uid);
    if (replaces) parts_.alerts_go(local->run_uid);
  }
  const auto flush_all = [&] {
    if (!flush()) throw history::OwnStoreError("what was staged of runs is not stored", true);
  };
  flush_all();
  // With the other run of that name all goes that is known of its alerts.
  if (replaces && parts_.left_open) {
    const auto ids = parts_.left_open(local->run_uid);
    if (!ids.empty()) {
      parts_.end_alerts(ids);
      flush_all();
    }
  }
  bool imported = false;
  try {
    imported = parts_.import(uid, term);
  } catch (...) {
    parts_.feed->disown(uid);
    throw;
  }
  parts_.feed->disown(uid);  // it came from there; own() says what is to go there from now on
  if (!imported) return false;
  const auto& then = term == 0 ? parts_.alerts_go : parts_.alerts_come;
  if (then) then(uid);
  return true;
}

bool Fleet::flush() {
  const auto flushed = std::make_shared<std::promise<void>>();
  engine_->submit({}, [flushed] { flushed->set_value(); });
  return flushed->get_future().wait_for(kFlush) == std::future_status::ready;
}

std::vector<Peer*> Fleet::holders(const std::string& name_or_uid, bool by_name) const {
  v1::GetRunRequest request;
  request.set_run(name_or_uid);
  std::vector<Peer*> found;
  for (const auto& answer : ask<v1::GetRunResponse>(
           peers_.alive(), kHeld, kAskHolders, [&](Peer& peer, grpc::ClientContext* context, auto* response, auto done) {
             peer.history().async()->GetRun(context, &request, response, std::move(done));
           })) {
    // A server that refuses the question has the run: it would not have looked who asks otherwise.
    const bool refused = answer.peer->refused(answer.status);
    if (refused || (answer.status.ok() && (!by_name || answer.response.run().name() == name_or_uid))) {
      found.push_back(answer.peer);
    }
  }
  return found;
}

// One whose store takes nothing is home to no run while another one's does.
Peer* Fleet::home_of(const std::string& run, bool without_self) const {
  if (!without_self && room_.is_there()) return heaviest(run, true, true);
  if (Peer* const other = with_room(run)) return other;
  return heaviest(run, !without_self, false);
}

Peer* Fleet::heaviest(const std::string& run, bool or_self, bool with_room) const {
  for (const std::size_t index : ranking(run, peers_.all())) {
    Peer* const peer = peers_.at(index);
    if (peer == nullptr) {
      if (or_self) return nullptr;
    } else if (peer->alive() && (!with_room || peer->has_room())) {
      return peer;
    }
  }
  return nullptr;
}

std::vector<std::pair<std::string, std::string>> Fleet::identity() const {
  auto identity = peers_.identity();
  if (!room_.is_there()) identity.emplace_back(kFull, "1");
  return identity;
}

bool Fleet::holds(const std::string& name_or_uid) const {
  return engine_ != nullptr && engine_->holds(name_or_uid);
}

bool Fleet::holds_named(const std::string& name) const {
  return !engine_->unless_held(name, {});
}

Stats Fleet::stats() const {
  const std::lock_guard lock(mutex_);
  return {moved_, taken_over_, yielded_, peers_.alive().size(), peers_.all().size() - 1, entries_.size()};
}

}  // namespace scalewatch::fleet
