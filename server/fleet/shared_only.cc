#include "server/fleet/shared_only.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

namespace scalewatch::fleet {

namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::chrono::seconds kBelieve{3};
constexpr int kRest = 10;                             // or so many times as long as reading took
constexpr std::chrono::seconds kWait{2};              // of a list
constexpr std::chrono::milliseconds kWaitAsked{400};  // of one that another server asks for, which asks many

// Whether there are more rows than the bound; those beyond it go.
template <class Row>
bool cut(std::vector<Row>& rows, std::size_t bound) {
  if (rows.size() <= bound) return false;
  rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(bound), rows.end());
  return true;
}

v1::RunSummary summary_of(const history::SharedRun& shared) {
  v1::GetRunResponse overview;
  if (!overview.ParseFromString(shared.row.overview)) overview.Clear();
  v1::RunSummary run = std::move(*overview.mutable_run());
  run.set_run_uid(shared.row.run_uid);
  run.set_name(shared.row.name);
  run.set_created_ms(shared.row.created_ms);
  run.set_last_report_ms(shared.row.last_report_ms);
  run.set_segment(shared.row.segment);
  run.set_status(static_cast<v1::RunStatus>(shared.row.status));
  run.set_worst_open(static_cast<v1::Severity>(shared.row.worst_open));
  run.set_instance(shared.instance);
  run.clear_ranks_connected();
  return run;
}

}  // namespace

SharedOnly::Read SharedOnly::read(const Fleet& fleet) {
  Read out;
  std::set<std::string> listed;
  try {
    auto runs = fleet.shared()->list_runs(kMaxRuns + 1, history::SharedHistory::Which::kAll);
    out.more_runs = cut(runs, kMaxRuns);
    for (const auto& run : runs) {
      Known& known = out.runs.emplace_back(Known{summary_of(run), fleet.owner_here(run.row.run_uid)});
      known.stump = known.here && fleet.is_stump(run);
      if (known.stump) out.stumps.insert(run.row.run_uid);
      listed.insert(run.row.run_uid);
    }
    auto alerts = fleet.shared()->open_alerts(kMaxAlerts + 1);
    out.more_alerts = cut(alerts, kMaxAlerts);
    for (const engine::AlertRow& row : alerts) {
      // Of an older run of a name, which is not listed, those tell that have it.
      if (!listed.contains(row.run_uid) && fleet.owner_here(row.run_uid)) continue;
      if (v1::Alert alert; alert.ParseFromString(row.alert)) out.alerts.push_back(std::move(alert));
    }
    out.whole = true;
  } catch (const std::exception& error) {
    spdlog::debug("fleet: lists go without what only the shared history has: {}", error.what());
    return {};
  }
  std::sort(out.runs.begin(), out.runs.end(), [](const Known& a, const Known& b) {
    const auto key = [](const v1::RunSummary& run) {
      return std::make_tuple(-static_cast<int>(run.worst_open()), -run.last_report_ms(), run.run_uid());
    };
    return key(a.run) < key(b.run);
  });
  std::sort(out.alerts.begin(), out.alerts.end(),
            [](const v1::Alert& a, const v1::Alert& b) { return order_of(a) < order_of(b); });
  return out;
}

void SharedOnly::refresh(const std::set<std::string>& servers) {
  if (fleet_.shared() == nullptr) return;
  const auto end = SteadyClock::now() + (servers.empty() ? std::chrono::milliseconds(kWaitAsked) : kWait);
  while (true) {
    std::shared_future<void> reading;
    {
      const std::lock_guard lock(mutex_);
      // What a server that went meanwhile began last is not in what was read before.
      if (SteadyClock::now() < until_ && (servers.empty() || servers == servers_)) return;
      if (!reads_) {
        reads_ = true;
        reading_ = std::async(std::launch::async, [this, servers] { read_anew(servers); }).share();
      }
      reading = reading_;
    }
    if (reading.wait_until(end) == std::future_status::ready && SteadyClock::now() < end) continue;
    const std::lock_guard lock(mutex_);
    if (reads_) read_.whole = false;
    return;
  }
}

void SharedOnly::read_anew(const std::set<std::string>& servers) {
  const auto begun = SteadyClock::now();
  Read now = read(fleet_);
  const std::lock_guard lock(mutex_);
  reads_ = false;
  const auto took = SteadyClock::now() - begun;
  until_ = SteadyClock::now() + std::max<SteadyClock::duration>(kBelieve, kRest * took);
  if (!servers.empty()) servers_ = servers;
  if (now.whole) {
    read_ = std::move(now);
  } else {
    read_.whole = false;  // and what was read before still is there
  }
}

// Nobody else tells it: neither the server that claimed it, nor the store of this one. As of the last reading: one that comes
// into the store meanwhile is told by both, which lists see.
bool SharedOnly::is_ours(const Known& known, const Tellers& tellers) const {
  const std::string& self = fleet_.self().name;
  const std::string& owner = known.run.instance();
  if (owner != self && (tellers.own || tellers.servers.contains(owner))) return false;
  if (!known.here || known.stump) return true;
  const bool own_here = known.here->empty() || *known.here == self;
  return !own_here && (tellers.own || tellers.servers.contains(*known.here));
}

bool SharedOnly::whole() {
  const std::lock_guard lock(mutex_);
  return read_.whole;
}

bool SharedOnly::is_stump(const std::string& run_uid) {
  const std::lock_guard lock(mutex_);
  return read_.stumps.contains(run_uid);
}

bool SharedOnly::more_runs() {
  const std::lock_guard lock(mutex_);
  return read_.more_runs;
}

bool SharedOnly::more_alerts() {
  const std::lock_guard lock(mutex_);
  return read_.more_alerts;
}

std::vector<v1::RunSummary> SharedOnly::runs(const v1::ListRunsRequest& request, const Tellers& tellers) {
  const std::lock_guard lock(mutex_);
  std::vector<v1::RunSummary> out;
  for (const Known& known : read_.runs) {
    const v1::RunSummary& run = known.run;
    const bool meant = run.worst_open() >= request.min_severity() &&
                       run.name().find(request.name_contains()) != std::string::npos &&
                       (!request.has_status() || run.status() == request.status());
    if (meant && is_ours(known, tellers)) out.push_back(run);
  }
  return out;
}

std::vector<v1::Alert> SharedOnly::alerts(const v1::ListAlertsRequest& request, const Tellers& tellers) {
  const std::lock_guard lock(mutex_);
  std::set<std::string> listed;
  std::set<std::string> ours;
  for (const Known& known : read_.runs) {
    listed.insert(known.run.run_uid());
    if (is_ours(known, tellers)) ours.insert(known.run.run_uid());
  }
  std::vector<v1::Alert> out;
  std::copy_if(read_.alerts.begin(), read_.alerts.end(), std::back_inserter(out), [&](const v1::Alert& alert) {
    const auto& states = request.states();
    const bool meant = ours.contains(alert.run_uid()) || (!tellers.own && !listed.contains(alert.run_uid()));
    return meant && alert.finding().severity() >= request.min_severity() && alert.state() != v1::ALERT_STATE_RESOLVED &&
           (states.empty() || std::find(states.begin(), states.end(), alert.state()) != states.end());
  });
  return out;
}

}  // namespace scalewatch::fleet
