#include "server/metrics/ended_runs.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "server/metrics/exporter.h"

namespace scalewatch::metrics {

void EndedRuns::remember(std::vector<engine::RunShown> ended, const Options& options) {
  std::lock_guard lock(mutex_);
  for (engine::RunShown& shown : ended) {
    const std::string name = shown.overview->run().name();
    runs_.insert_or_assign(name, std::move(shown));
  }
  bound(options);
}

void EndedRuns::complete(std::vector<engine::RunShown>& live, const Options& options, std::int64_t now_ms) {
  std::lock_guard lock(mutex_);
  std::erase_if(runs_, [&](const auto& entry) { return !on_page(entry.second.overview->run(), options, now_ms); });
  std::unordered_set<std::string_view> here;
  here.reserve(live.size());
  for (const engine::RunShown& shown : live) here.insert(shown.overview->run().name());
  std::vector<engine::RunShown> gone;
  for (const auto& [name, shown] : runs_) {
    if (!here.contains(name)) gone.push_back(shown);
  }
  for (const engine::RunShown& shown : live) {
    const v1::RunSummary& run = shown.overview->run();
    if (run.status() == v1::RUN_STATUS_RUNNING) {
      if (!runs_.empty()) runs_.erase(run.name());
    } else if (on_page(run, options, now_ms)) {
      runs_[run.name()] = shown;
    }
  }
  bound(options);
  live.insert(live.end(), gone.begin(), gone.end());
}

void EndedRuns::bound(const Options& options) {
  if (runs_.size() <= options.max_runs) return;
  std::vector<std::int64_t> ends;
  ends.reserve(runs_.size());
  for (const auto& [name, shown] : runs_) ends.push_back(last_sign_of_life_ms(shown.overview->run()));
  const auto first = ends.begin() + static_cast<std::ptrdiff_t>(runs_.size() - options.max_runs);
  std::nth_element(ends.begin(), first, ends.end());
  const std::int64_t oldest = first == ends.end() ? INT64_MAX : *first;
  std::erase_if(runs_, [&](const auto& entry) { return last_sign_of_life_ms(entry.second.overview->run()) < oldest; });
  // Many may have ended in the same millisecond.
  while (runs_.size() > options.max_runs) runs_.erase(runs_.begin());
}

}  // namespace scalewatch::metrics
