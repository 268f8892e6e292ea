// Sends a marked test page through sinks, as `alerts test` asks. Thread-safe.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "scalewatch/v1/alerts.pb.h"
#include "server/alerting/sink.h"
#include "server/engine/ports/clock.h"
#include "server/engine/ports/read_api.h"

namespace scalewatch::alerting {

class SinkTester {
 public:
  // Configs must have passed validate(); the clock must outlive this.
  SinkTester(const std::vector<SinkConfig>& sinks, engine::Clock& clock);

  // Other sinks from the next test on. Configs must have passed validate().
  void reconfigure(const std::vector<SinkConfig>& sinks);

  // Waits for all answers, each at most its sink's time-out. One test at a time: another gets RESOURCE_EXHAUSTED.
  engine::Status test(const v1::TestSinksRequest& request, v1::TestSinksResponse& response);

 private:
  using Sinks = std::vector<std::unique_ptr<Sink>>;
  static std::shared_ptr<const Sinks> make_sinks(const std::vector<SinkConfig>& sinks);

  engine::Clock& clock_;
  std::mutex testing_;
  std::mutex mutex_;  // guards what follows
  std::shared_ptr<const Sinks> sinks_;
};

}  // namespace scalewatch::alerting
