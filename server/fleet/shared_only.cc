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
constexpr std::size_t kMaxRuns = 1000;
constexpr std::size_t kMaxAlerts = 1000;

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

void SharedOnly::read() {
  history::SharedHistory* shared = fleet_.shared();
  if (shared == nullptr || SteadyClock::now() < until_) return;
  until_ = SteadyClock::now() + kBelieve;
  runs_.clear();
  alerts_.clear();
  try {
    std::set<std::string> elsewhere;  // of these the servers that have them tell
    for (const auto& run : shared->list_runs(kMaxRuns, history::SharedHistory::Which::kAll)) {
      const bool another = run.instance != fleet_.self().name && fleet_.is_there(run.instance);
      if (another || fleet_.knows(run.row.run_uid)) {
        elsewhere.insert(run.row.run_uid);
      } else {
        runs_.push_back(summary_of(run));
      }
    }
    for (const engine::AlertRow& row : shared->open_alerts(kMaxAlerts)) {
      if (elsewhere.contains(row.run_uid) || fleet_.knows(row.run_uid)) continue;
      if (v1::Alert alert; alert.ParseFromString(row.alert)) alerts_.push_back(std::move(alert));
    }
  } catch (const engine::StoreError& error) {
    spdlog::debug("fleet: lists go without what only the shared history has: {}", error.what());
  }
  std::sort(runs_.begin(), runs_.end(), [](const v1::RunSummary& a, const v1::RunSummary& b) {
    const auto key = [](const v1::RunSummary& run) {
      return std::make_tuple(-static_cast<int>(run.worst_open()), -run.last_report_ms(), run.run_uid());
    };
    return key(a) < key(b);
  });
  std::sort(alerts_.begin(), alerts_.end(), [](const v1::Alert& a, const v1::Alert& b) { return order_of(a) < order_of(b); });
}

std::vector<v1::RunSummary> SharedOnly::runs(const v1::ListRunsRequest& request) {
  const std::lock_guard lock(mutex_);
  read();
  std::vector<v1::RunSummary> out;
  std::copy_if(runs_.begin(), runs_.end(), std::back_inserter(out), [&](const v1::RunSummary& run) {
    return run.worst_open() >= request.min_severity() && run.name().find(request.name_contains()) != std::string::npos &&
           (!request.has_status() || run.status() == request.status());
  });
  return out;
}

std::vector<v1::Alert> SharedOnly::alerts(const v1::ListAlertsRequest& request) {
  const std::lock_guard lock(mutex_);
  read();
  std::vector<v1::Alert> out;
  std::copy_if(alerts_.begin(), alerts_.end(), std::back_inserter(out), [&](const v1::Alert& alert) {
    const auto& states = request.states();
    return alert.finding().severity() >= request.min_severity() && alert.state() != v1::ALERT_STATE_RESOLVED &&
           (states.empty() || std::find(states.begin(), states.end(), alert.state()) != states.end());
  });
  return out;
}

}  // namespace scalewatch::fleet
