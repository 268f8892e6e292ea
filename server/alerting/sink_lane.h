// One sink as the delivery thread has it: what waits for it, what is under way, and how it does. The lanes of all sinks, also
// over a change of the configuration. Not thread-safe: the delivery thread's own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/alerting/delivery.h"
#include "server/alerting/http_sender.h"
#include "server/alerting/sink.h"
#include "server/alerting/sink_queue.h"

namespace scalewatch::alerting {

struct SinkLane {
  explicit SinkLane(SinkConfig config);

  std::shared_ptr<const Sink> sink;
  SinkQueue queue;
  SinkStats stats;
  std::size_t in_flight = 0;
  std::size_t reminders_in_flight = 0;
  std::size_t watchdogs_in_flight = 0;
  std::int64_t paused_until = 0;  // steady
  std::int64_t remind_at = 0;     // steady
  std::int64_t watchdog_at = 0;   // steady
  bool failing = false;
  bool overflowed = false;  // more of its notices wait in the store: newer ones queue up behind those
  bool catches_up = false;  // there is room again, and what waits there is being taken
  bool retired = false;     // no longer configured: it goes with its last flight

  [[nodiscard]] bool idle() const { return in_flight + reminders_in_flight + watchdogs_in_flight == 0; }
  // What an answer tells of the sink as a whole: counts it, and pauses where it asks for that. `now`: steady.
  void note(Verdict verdict, const HttpResponse& response, std::int64_t now);
  // Whether the Watchdog is to be sent now; the next one is due later then.
  bool takes_watchdog(std::int64_t now);
};

class SinkLanes {
 public:
  explicit SinkLanes(std::vector<SinkConfig> sinks);

  // Other sinks from now on. One that keeps its name and type keeps its lane, and what waits in it is due; `dropped` is called
  // for what waits for one that is gone.
  void reconfigure(std::vector<SinkConfig> sinks, std::int64_t now,
                   const std::function<void(const engine::OutboxRow&)>& dropped);
  // Null: no sink of that name is configured.
  [[nodiscard]] SinkLane* find(const std::string& sink) const;
  // A request of the lane is over: a retired one goes with its last.
  void landed(const SinkLane& lane);

  [[nodiscard]] std::size_t size() const { return lanes_.size(); }
  [[nodiscard]] auto begin() const { return lanes_.begin(); }
  [[nodiscard]] auto end() const { return lanes_.end(); }

 private:
  std::vector<std::unique_ptr<SinkLane>> lanes_;
  std::vector<std::unique_ptr<SinkLane>> retired_;
};

}  // namespace scalewatch::alerting
