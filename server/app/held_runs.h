// Retention leaves alone what the engine has in memory, for as long as this lives.
#pragma once

#include <functional>
#include <string>

#include "server/engine/engine.h"
#include "server/history/retention.h"

namespace scalewatch::app {

class HeldRuns {
 public:
  HeldRuns(history::Retention& retention, engine::Engine& engine) : retention_(retention) {
    retention_.set_holder(
        [&engine](const std::string& run, const std::function<void()>& work) { return engine.unless_held(run, work); });
  }
  ~HeldRuns() { retention_.set_holder({}); }
  HeldRuns(const HeldRuns&) = delete;
  HeldRuns& operator=(const HeldRuns&) = delete;

 private:
  history::Retention& retention_;
};

}  // namespace scalewatch::app
