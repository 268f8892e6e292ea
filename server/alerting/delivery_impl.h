// What delivery.cc (the thread's turns), delivery_intake.cc (what comes out of the store) and delivery_requests.cc (what goes
// to sinks and how it ends) share.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "server/alerting/delivery.h"
#include "server/alerting/http_sender.h"
#include "server/alerting/known_notices.h"
#include "server/alerting/sink_lane.h"

namespace scalewatch::alerting {

inline constexpr std::int64_t kNeverTried = std::numeric_limits<std::int64_t>::max();  // next_try_ms of what was given up

struct Delivery::Impl {
  // What is due; also what is not; what full queues left in the store and may be taken now.
  enum class Fetch : std::uint8_t { kDue, kAll, kLeft };
  enum class Kind : std::uint8_t { kNotice, kReminder, kAlive };  // kAlive: the Watchdog
  struct Flight {
    SinkLane* lane = nullptr;
    std::shared_ptr<const Sink> sink;  // as it was when the request was made
    Kind kind = Kind::kNotice;
    std::vector<std::string> orders;  // of a notice one, of a Watchdog none
  };

  Impl(std::vector<SinkConfig> sinks, engine::OutboxStore& outbox, engine::Clock& server_clock,
       DeliveryOptions delivery_options)
      : store(outbox),
        clock(server_clock),
        options(delivery_options),
        started_ms(server_clock.wall_ms()),
        random(std::random_device{}()),
        lanes(std::move(sinks)) {
    for (const auto& lane : lanes) published.push_back(lane->stats);
  }

  void run();
  bool fetch(Fetch which);
  void admit(engine::OutboxStore::Pending pending, Fetch which);
  bool find_room();
  void send(std::int64_t now);
  void remind(std::int64_t now);
  void watchdog(std::int64_t now);
  void start(SinkLane& lane, Kind kind, HttpRequest request, std::vector<std::string> orders);
  void take_sinks(std::vector<SinkConfig> sinks);
  void count_dead_letters(std::int64_t now);
  void done(const HttpSender::Done& done);
  void reminder_done(const Flight& flight, const HttpResponse& response) const;
  void watchdog_done(const Flight& flight, const HttpResponse& response) const;
  void notice_done(const Flight& flight, const HttpResponse& response);
  void settle(engine::OutboxUpdate update);
  void flush();
  [[nodiscard]] std::chrono::milliseconds wait(std::int64_t now, std::int64_t next_fetch) const;

  engine::OutboxStore& store;
  engine::Clock& clock;
  const DeliveryOptions options;
  const std::int64_t started_ms;
  Outcomes outcomes;
  HttpSender sender;
  std::thread thread;

  // The thread's own.
  std::minstd_rand random;
  SinkLanes lanes;
  std::unordered_map<std::uint64_t, Flight> flights;
  std::uint64_t last_flight = 0;
  KnownNotices known;
  std::vector<engine::OutboxUpdate> updates;  // of this turn
  bool store_failing = false;
  bool fetch_all = true;  // also what is not due
  bool recount = true;    // dead letters came or went
  std::int64_t count_at = 0;
  std::map<std::string, std::uint64_t> letters;  // by sink

  mutable std::mutex mutex;  // guards what follows
  bool stopping = false;
  bool woken = false;
  std::vector<engine::OutboxUpdate> durable;
  std::vector<SinkStats> published;
  std::uint64_t published_letters = 0;
  std::optional<std::vector<SinkConfig>> new_sinks;
};

}  // namespace scalewatch::alerting
