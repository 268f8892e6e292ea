// Writes every change of an alert to the log, so that a server without sinks tells what it found.
#pragma once

#include <memory>
#include <thread>

#include "scalewatch/v1/alerts.pb.h"
#include "server/engine/feed.h"

namespace scalewatch::app {

class AlertLog {
 public:
  // Ends with the feed, or with this.
  explicit AlertLog(engine::Feed<v1::Alert>& feed);

 private:
  std::shared_ptr<engine::Feed<v1::Alert>::Subscription> subscription_;
  std::jthread thread_;
};

}  // namespace scalewatch::app
