// Retention leaves alone what the engine has in memory, for as long as this lives, and what is open of a run that goes resolves
// before.
#pragma once

#include <functional>
#include <string>

#include "server/alerting/alert_book.h"
#include "server/engine/engine.h"
#include "server/history/retention.h"

namespace scalewatch::app {

class HeldRuns {
 public:
  HeldRuns(history::Retention& retention, engine::Engine& engine, alerting::AlertBook& book) : retention_(retention) {
    retention_.set_holder(
        [&engine](const std::string& run, const std::function<void()>& work) { return engine.unless_held(run, work); },
        [&book](const std::string& uid) { return book.end_run(uid, "its run is old, and is removed"); });
  }
  ~HeldRuns() { retention_.set_holder({}); }
  HeldRuns(const HeldRuns&) = delete;
  HeldRuns& operator=(const HeldRuns&) = delete;

 private:
  history::Retention& retention_;
};

}  // namespace scalewatch::app
