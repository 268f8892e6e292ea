// Runs that only the shared history has: those whose server is gone and that no client comes for, and those that are asked for.
#include <spdlog/spdlog.h>

#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "server/fleet/fleet.h"
#include "server/fleet/run_list.h"

namespace scalewatch::fleet {

namespace {

using SteadyClock = std::chrono::steady_clock;
using Which = history::SharedHistory::Which;

constexpr std::size_t kMaxOrphans = 10'000;
constexpr std::chrono::seconds kTurn{10};  // whoever asks does not wait longer
constexpr std::chrono::seconds kRenewed{3};
constexpr std::size_t kMaxRenewed = 10'000;
constexpr int kPatience = 5;  // times down_after: its clients come first, and a server may come back

}  // namespace

bool Fleet::is_there(const std::string& instance) const {
  if (instance == self().name) return true;
  const Peer* peer = peers_.named(instance);
  return peer != nullptr && peer->alive();
}

std::optional<std::string> Fleet::owner_here(const std::string& run_uid) const {
  const auto row = parts_.store.find_run(run_uid);
  if (!row || row->run_uid != run_uid) return std::nullopt;
  v1::GetRunResponse overview;
  return overview.ParseFromString(row->overview) ? overview.run().instance() : std::string();
}

// Their trainers may be dead, too, and somebody must notice. A server that only this one can't see still sends its runs' rows
// now and then: a run whose row stood still between two looks is nobody's. One whose import was cut short by a restart is this
// server's by its claim.
void Fleet::take_orphans() {
  const auto now = SteadyClock::now();
  if (now - looked_for_orphans_ < kPatience * options_.down_after) return;
  looked_for_orphans_ = now;
  std::move(later_.begin(), later_.end(), std::back_inserter(of_before_));
  later_.clear();
  const auto before = std::exchange(orphans_, {});
  try {
    for (const history::SharedRun& run : parts_.shared->list_runs(kMaxOrphans, Which::kRunning)) {
      const std::string& name = run.row.name;
      if (run.instance.empty() || holds_named(name)) continue;
      const bool own = run.instance == self().name && is_newest(run, run.row.run_uid);
      if (own && ended_here(run.row.run_uid)) of_before_.push_back({run.row.run_uid});
      if (own || home_of(name, false) != nullptr) continue;
      if (is_there(run.instance) && run.instance != self().name) continue;
      orphans_[run.row.run_uid] = run.row_version;
      const auto seen = before.find(run.row.run_uid);
      if (seen == before.end() || seen->second != run.row_version) continue;
      spdlog::warn("fleet: run '{}' of server {} is nobody's", name, run.instance);
      enter(name, [this, name](const Answer& answer) {
        try {
          if (answer.kind == Answer::kHere) engine_->adopt(name);
        } catch (const engine::StoreError& error) {
          spdlog::warn("fleet: run '{}' waits for its clients: {}", name, error.what());
        }
      });
    }
  } catch (const engine::StoreError& error) {
    spdlog::debug("fleet: runs of servers that are gone cannot be looked for: {}", error.what());
  }
}

bool Fleet::is_stump(const history::SharedRun& there) const {
  const auto local = parts_.store.find_run(there.row.run_uid);
  return local && is_stump(there, *local);
}

bool Fleet::is_stump(const history::SharedRun& there, const engine::RunRow& local) const {
  if (there.row.run_uid != local.run_uid || is_own(local)) return false;
  const auto term = parts_.feed->term_of(local.run_uid);
  if (!term || there.row_term <= *term) return false;
  // A copy came under no term, and is as good as what is shared until that goes on.
  const auto state = [](const engine::RunRow& row) { return std::tie(row.status, row.segment, row.last_report_ms); };
  return *term != 0 || state(there.row) != state(local);
}

void Fleet::renew(const std::string& name_or_uid) {
  if (parts_.shared == nullptr || holds(name_or_uid)) return;
  try {
    const auto row = parts_.store.find_run(name_or_uid);
    v1::GetRunResponse overview;
    if (!row || is_own(*row) || !overview.ParseFromString(row->overview)) return;
    const std::string& owner = overview.run().instance();
    if (owner == kNobody || is_there(owner)) return;
    {
      const std::lock_guard lock(mutex_);
      const auto last = renewed_.find(row->run_uid);
      if (last != renewed_.end() && SteadyClock::now() < last->second + kRenewed) return;
    }
    (void)bring(row->run_uid);
    const std::lock_guard lock(mutex_);
    if (renewed_.size() >= kMaxRenewed) renewed_.clear();
    renewed_[row->run_uid] = SteadyClock::now();
  } catch (const engine::StoreError& error) {
    spdlog::debug("fleet: whether '{}' is an old state of a run is not known: {}", name_or_uid, error.what());
  }
}

bool Fleet::bring(const std::string& name_or_uid, bool own) {
  {
    const std::lock_guard lock(mutex_);
    if (parts_.shared == nullptr || !started_ || stopping_) return false;
  }
  if (engine_->holds(name_or_uid)) return true;
  try {
    const auto found = parts_.shared->find_run(name_or_uid);
    if (!found || (own && found->instance != self().name)) return false;
    const std::string& name = found->row.name;
    // Whoever takes another run waits for none of them.
    const std::unique_lock turn(bring_mutex_, kTurn);
    if (!turn) throw engine::StoreError("other runs are brought first", true);
    const auto run_lock = run_locks_.hold(name);
    if (holds_named(name)) return true;
    // What the store has of that name may be this server's own, and newer than what is shared.
    const auto local = parts_.store.find_named(name);
    if (local && !is_stump(*found, *local)) return local->run_uid == found->row.run_uid;
    // Under no term: its server may come back and go on, and a takeover brings it anew.
    return import(*found, 0);
  } catch (const history::OwnStoreError& error) {
    spdlog::warn("fleet: '{}' cannot be brought, this server's own store does not take it: {}", name_or_uid, error.what());
    return false;
  } catch (const engine::StoreError& error) {
    spdlog::warn("fleet: '{}' cannot be looked for in the shared history: {}", name_or_uid, error.what());
    return false;
  }
}

}  // namespace scalewatch::fleet
