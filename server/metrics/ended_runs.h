// Runs that have ended and left the engine's memory, or ended before this server began: they stay on the page as long as
// metrics.finished_for says. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "server/engine/engine.h"

namespace scalewatch::metrics {

struct Options;

class EndedRuns {
 public:
  // From the history, at the start. At most options.max_runs in all are kept, those that ended last.
  void remember(std::vector<engine::RunShown> ended, const Options& options);

  // Takes note of the ended ones of `live`, which is what the engine has, and adds those that it has no more.
  void complete(std::vector<engine::RunShown>& live, const Options& options, std::int64_t now_ms);

 private:
  void bound(const Options& options);

  std::mutex mutex_;
  std::map<std::string, engine::RunShown> runs_;  // by name
};

}  // namespace scalewatch::metrics
