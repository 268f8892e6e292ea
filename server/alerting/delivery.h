// Delivers what the outbox owes to each sink: at least once, with the same key at every try, over restarts.
//
// One thread; requests to different sinks never wait for each other. What was delivered is not sent again by this process, also
// while that is not durable yet; after a crash in between it is sent again with the same key.
// Life: construct, start(), ... stop(). The engine must be able to take outcomes from start() until stop() returned, so stop
// this first; notices that commit later are sent after the next start.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/alerting/retry_policy.h"
#include "server/alerting/sink_config.h"
#include "server/engine/ports/clock.h"
#include "server/engine/ports/history_store.h"

namespace scalewatch::alerting {

struct DeliveryOptions {
  RetryOptions retry;
  std::size_t in_flight_per_sink = 4;          // requests at once
  std::size_t queue_per_sink = 1024;           // notices in memory; more of them wait in the store
  std::chrono::milliseconds poll{1000};        // looks into the store this often even when nobody wakes it
  std::chrono::milliseconds defer{300'000};    // how long notices beyond queue_per_sink wait
  std::chrono::milliseconds stop_grace{2000};  // how long stop() waits for requests in flight
};

// Of one sink. Cumulative since start, unless said otherwise.
struct SinkStats {
  std::string name;
  std::string type;
  std::uint64_t delivered = 0;     // notices
  std::uint64_t failed = 0;        // tries of notices and reminders that were not taken
  std::uint64_t given_up = 0;      // notices that will not be tried again; their last_error says why
  std::uint64_t reminders = 0;     // requests that sent open alerts again and were taken
  std::uint64_t watchdogs = 0;     // times that the Watchdog was taken
  std::uint64_t pending = 0;       // now: notices in memory that are not delivered
  std::uint64_t dead_letters = 0;  // now: notices given up within the last 30 days that can be replayed
  std::int64_t oldest_ms = 0;      // now: since when the oldest of `pending` waits, server's clock; 0 = none does
  std::uint64_t requests = 0;      // answered or not
  double seconds = 0;              // total duration of these requests
};

class Delivery {
 public:
  using Outcomes = std::function<void(std::vector<engine::OutboxUpdate>)>;

  // Configs must have passed validate(); store and clock must outlive this. Throws std::runtime_error when libcurl can't start.
  Delivery(std::vector<SinkConfig> sinks, engine::OutboxStore& store, engine::Clock& clock, DeliveryOptions options = {});
  ~Delivery();  // stops
  Delivery(const Delivery&) = delete;
  Delivery& operator=(const Delivery&) = delete;

  // `outcomes` is called from the delivery thread; the updates must get into a commit, and then back through committed().
  void start(Outcomes outcomes);
  // Other sinks from now on, also while it runs; thread-safe, returns at once. Configs must have passed validate(). A sink that
  // keeps its name and type keeps its counts, and what waits for it is tried at once; what waits for one that is gone stays in
  // the store, and leaves when a sink of that name is back. Requests in flight end as they began.
  void reconfigure(std::vector<SinkConfig> sinks);

  // A batch is durable: its notices leave now. Thread-safe, never blocks.
  void committed(const engine::CommitBatch& batch);
  // Starts nothing more, waits for requests in flight up to stop_grace, and abandons the rest: they are sent again after the
  // next start. Safe to call twice.
  void stop();

  // By sink, in the order of the configuration. Thread-safe.
  [[nodiscard]] std::vector<SinkStats> stats() const;
  // Dead letters of the last 30 days, those of sinks that are no longer configured included. Thread-safe.
  [[nodiscard]] std::uint64_t dead_letters() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace scalewatch::alerting
