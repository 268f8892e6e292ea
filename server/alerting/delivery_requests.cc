// Requests to sinks, and what their ends mean.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <utility>

#include "scalewatch/v1/alerts.pb.h"
#include "server/alerting/delivery_impl.h"
#include "server/alerting/reminders.h"
#include "server/alerting/watchdog.h"

namespace scalewatch::alerting {

namespace {

// Where the operator lets nothing go, only a person can mend that.
Verdict verdict_of(const Sink& sink, const HttpResponse& response) {
  return response.refused ? Verdict::kRejected : sink.classify(response);
}

}  // namespace

void Delivery::Impl::send(std::int64_t now) {
  for (const auto& lane : lanes) {
    if (now < lane->paused_until) continue;
    while (lane->in_flight < options.in_flight_per_sink) {
      std::optional<std::string> order = lane->queue.take(now);
      if (!order) break;
      const engine::OutboxRow& row = lane->queue.head(*order).row;
      v1::Alert alert;
      alert.ParseFromString(row.alert);  // admit() has tried it
      HttpRequest request = lane->sink->request({alert, row.transition, row.key}, clock.wall_ms());
      ++lane->in_flight;
      start(*lane, Kind::kNotice, std::move(request), {*std::move(order)});
    }
  }
}

void Delivery::Impl::start(SinkLane& lane, Kind kind, HttpRequest request, std::vector<std::string> orders) {
  const std::uint64_t flight = ++last_flight;
  sender.start(flight, std::move(request));
  flights.emplace(flight, Flight{&lane, lane.sink, kind, std::move(orders)});
}

void Delivery::Impl::watchdog(std::int64_t now) {
  for (const auto& lane : lanes) {
    if (!lane->takes_watchdog(now) || store_failing) continue;
    const std::int64_t now_ms = clock.wall_ms();
    const v1::Alert alert = watchdog_alert(started_ms, now_ms, lane->sink->config().watchdog_runbook);
    const std::string key = fmt::format("{}/{}", alert.id(), now_ms);
    ++lane->watchdogs_in_flight;
    start(*lane, Kind::kAlive, lane->sink->request({alert, kWatchdog, key}, now_ms), {});
  }
}

void Delivery::Impl::remind(std::int64_t now) {
  std::optional<std::vector<v1::Alert>> open;
  for (const auto& lane : lanes) {
    const std::uint32_t every = lane->sink->reminder_ms();
    if (every == 0 || now < lane->remind_at || now < lane->paused_until || lane->reminders_in_flight > 0) continue;
    lane->remind_at = now + every;
    if (!open) open = read_open_alerts(store);
    for (Reminder& reminder : make_reminders(*lane->sink, lane->queue, *open, clock.wall_ms())) {
      ++lane->reminders_in_flight;
      start(*lane, Kind::kReminder, std::move(reminder.request), std::move(reminder.orders));
    }
  }
}

void Delivery::Impl::done(const HttpSender::Done& done) {
  const Flight flight = std::move(flights.extract(done.id).mapped());
  SinkStats& stats = flight.lane->stats;
  ++stats.requests;
  stats.seconds += done.response.took.count();
  switch (flight.kind) {
    case Kind::kNotice:
      notice_done(flight, done.response);
      break;
    case Kind::kReminder:
      reminder_done(flight, done.response);
      break;
    case Kind::kAlive:
      watchdog_done(flight, done.response);
      break;
  }
  lanes.landed(*flight.lane);
}

void Delivery::Impl::watchdog_done(const Flight& flight, const HttpResponse& response) const {
  SinkLane& lane = *flight.lane;
  --lane.watchdogs_in_flight;
  const Verdict verdict = verdict_of(*flight.sink, response);
  lane.note(verdict, response, clock.steady_ms());
  if (verdict == Verdict::kDelivered) ++lane.stats.watchdogs;
}

void Delivery::Impl::reminder_done(const Flight& flight, const HttpResponse& response) const {
  SinkLane& lane = *flight.lane;
  --lane.reminders_in_flight;
  for (const std::string& order : flight.orders) lane.queue.release(order);
  const Verdict verdict = verdict_of(*flight.sink, response);
  lane.note(verdict, response, clock.steady_ms());
  if (verdict == Verdict::kDelivered) ++lane.stats.reminders;
}

void Delivery::Impl::notice_done(const Flight& flight, const HttpResponse& response) {
  SinkLane& lane = *flight.lane;
  const std::string& order = flight.orders.front();
  const std::int64_t now = clock.steady_ms();
  --lane.in_flight;
  const SinkQueue::Item& item = lane.queue.head(order);
  const Verdict verdict = verdict_of(*flight.sink, response);
  lane.note(verdict, response, clock.steady_ms());
  engine::OutboxUpdate update{.key = item.row.key,
                              .sink = item.row.sink,
                              .delivered = verdict == Verdict::kDelivered,
                              .tries = item.tries + 1,
                              .next_try_ms = 0,
                              .last_error = {}};
  if (!update.delivered) update.last_error = failure_text(response);
  if (verdict == Verdict::kRejected && item.tries == 0) {
    spdlog::error("sink '{}' rejects alert {}: {}", lane.stats.name, update.key, update.last_error);
  }
  const Decision decision =
      decide(options.retry, verdict, update.tries, lane.queue.followed(order), response.retry_after, random);
  switch (decision.what) {
    case Decision::What::kAgain:
      update.next_try_ms = clock.wall_ms() + decision.delay.count();
      if (lane.retired) {
        known.forget(item.row);
        lane.queue.finish(order, now);
      } else {
        lane.queue.retry(order, update.tries, now + decision.delay.count());
      }
      updates.push_back(std::move(update));
      return;
    case Decision::What::kGiveUp:
      update.next_try_ms = kNeverTried;
      update.given_up_ms = clock.wall_ms();
      spdlog::error("sink '{}': alert {} is given up after {} tries: {}", lane.stats.name, update.key, update.tries,
                    update.last_error);
      update.last_error = fmt::format("given up after {} tries: {}", update.tries, update.last_error);
      ++lane.stats.given_up;
      break;
    case Decision::What::kDelivered:
      ++lane.stats.delivered;
      break;
  }
  lane.queue.finish(order, now);
  settle(std::move(update));
}

}  // namespace scalewatch::alerting
