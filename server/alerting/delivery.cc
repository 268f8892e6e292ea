#include "server/alerting/delivery.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

#include "scalewatch/v1/alerts.pb.h"
#include "server/alerting/http_sender.h"
#include "server/alerting/known_notices.h"
#include "server/alerting/reminders.h"
#include "server/alerting/sink_lane.h"
#include "server/alerting/watchdog.h"

namespace scalewatch::alerting {

namespace {

using std::chrono::milliseconds;

constexpr std::size_t kFetch = 256;          // new notices a read
constexpr std::size_t kFetchAtStart = 8192;  // what was left over, so that order is known from the beginning
constexpr std::size_t kMaxKnown = 50'000;    // notices in memory or not yet durably settled: beyond it nothing is fetched
constexpr milliseconds kOrphanEvery{3'600'000};
constexpr std::int64_t kRoomPause = 100;      // at least between two looks for what a full queue left in the store
constexpr std::uint32_t kOrphanTries = 168;   // a week
constexpr std::int64_t kCountEvery = 60'000;  // dead letters, when nothing makes some
constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();  // next_try_ms of what was given up

// A dead letter that goes into the queue again.
bool is_replay(const engine::OutboxUpdate& update) {
  return !update.delivered && update.tries == 0 && update.next_try_ms == 0;
}

// Where the operator lets nothing go, only a person can mend that.
Verdict verdict_of(const Sink& sink, const HttpResponse& response) {
  return response.refused ? Verdict::kRejected : sink.classify(response);
}

}  // namespace

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
  [[nodiscard]] milliseconds wait(std::int64_t now, std::int64_t next_fetch) const;

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

void Delivery::Impl::run() {
  std::int64_t next_fetch = 0;
  std::int64_t last_fetch = 0;
  while (true) {
    bool wake = false;
    std::vector<engine::OutboxUpdate> settled;
    std::optional<std::vector<SinkConfig>> sinks;
    {
      std::lock_guard lock(mutex);
      if (stopping) break;
      wake = std::exchange(woken, false);
      settled.swap(durable);
      sinks.swap(new_sinks);
    }
    known.durable(settled);
    recount = recount || std::any_of(settled.begin(), settled.end(), [](const engine::OutboxUpdate& update) {
                return update.given_up_ms != 0 || is_replay(update);
              });
    const std::int64_t now = clock.steady_ms();
    if (sinks) take_sinks(*std::move(sinks));
    const bool room = find_room();
    if (room) next_fetch = std::min(next_fetch, last_fetch + kRoomPause);
    if (wake || now >= next_fetch) {
      last_fetch = now;
      if (room) fetch(Fetch::kLeft);
      const bool more = fetch(fetch_all ? Fetch::kAll : Fetch::kDue);
      fetch_all = fetch_all && store_failing;
      next_fetch = more ? now : now + options.poll.count();
    }
    count_dead_letters(now);
    remind(now);
    watchdog(now);
    send(now);
    flush();
    for (const HttpSender::Done& each : sender.poll(wait(now, next_fetch))) done(each);
    flush();
  }
  const auto deadline = std::chrono::steady_clock::now() + options.stop_grace;
  while (sender.in_flight() > 0) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) break;
    for (const HttpSender::Done& each : sender.poll(left)) done(each);
    flush();
  }
}

// Returns whether there may be more.
bool Delivery::Impl::fetch(Fetch which) {
  if (known.size() > kMaxKnown) return false;
  const bool all = which != Fetch::kDue;
  const std::size_t limit = (all ? kFetchAtStart : kFetch) + known.size();  // what is known may come again
  std::vector<engine::OutboxStore::Pending> rows;
  try {
    rows = store.due_outbox(all ? kNever - 1 : clock.wall_ms(), limit);
  } catch (const engine::StoreError& error) {
    if (!std::exchange(store_failing, true)) spdlog::error("alerts cannot be read for delivery: {}", error.what());
    return false;
  }
  if (std::exchange(store_failing, false)) spdlog::info("alerts can be read for delivery again");
  const bool more = rows.size() >= limit;
  for (const auto& lane : lanes) {
    // admit() sees what waits still.
    if (which == Fetch::kAll || (which == Fetch::kLeft && lane->catches_up)) lane->overflowed = false;
  }
  for (engine::OutboxStore::Pending& row : rows) admit(std::move(row), which);
  return more;
}

// Whether what a full queue left in the store can be taken now.
bool Delivery::Impl::find_room() {
  bool any = false;
  for (const auto& lane : lanes) {
    lane->catches_up = lane->overflowed && lane->queue.size() <= options.queue_per_sink / 2;
    any = any || lane->catches_up;
  }
  return any;
}

void Delivery::Impl::admit(engine::OutboxStore::Pending pending, Fetch which) {
  engine::OutboxRow& row = pending.row;
  SinkLane* const lane = lanes.find(row.sink);
  if (which == Fetch::kLeft && (lane == nullptr || !lane->catches_up)) return;
  if (which != Fetch::kDue && lane != nullptr && lane->overflowed) return;  // behind one that stays there
  if (known.contains(row)) {
    if (which != Fetch::kDue && lane != nullptr && known.put_off(row)) lane->overflowed = true;
    return;
  }
  engine::OutboxUpdate update{
      .key = row.key, .sink = row.sink, .delivered = false, .tries = pending.tries, .next_try_ms = 0, .last_error = {}};
  if (lane == nullptr) {
    update.tries += 1;
    update.next_try_ms = update.tries < kOrphanTries ? clock.wall_ms() + kOrphanEvery.count() : kNever;
    update.given_up_ms = update.tries < kOrphanTries ? 0 : clock.wall_ms();
    update.last_error = fmt::format("no sink named '{}' is configured", row.sink);
    settle(std::move(update));
    return;
  }
  v1::Alert alert;
  // What its disk has damaged is not sent as if it were true.
  const bool whole = !pending.damaged && alert.ParseFromString(row.alert) && alert.id() == row.alert_id &&
                     row.key == row.alert_id + "/" + row.transition;
  if (!whole) {
    update.next_try_ms = kNever;
    update.given_up_ms = clock.wall_ms();
    update.last_error = "the stored alert is damaged, so it is not sent";
    spdlog::error("alert {} for sink '{}': {}", row.key, row.sink, update.last_error);
    ++lane->stats.given_up;
    settle(std::move(update));
    return;
  }
  // What is older than that was put off before.
  const bool behind = lane->overflowed && which == Fetch::kDue && row.created_ms > clock.wall_ms() - options.defer.count();
  if (behind || lane->queue.size() >= options.queue_per_sink) {
    lane->overflowed = true;
    if (which != Fetch::kDue) return;  // it stays as it is
    update.next_try_ms = clock.wall_ms() + options.defer.count();
    update.last_error = fmt::format("waits: {} earlier notices to this sink are not delivered", lane->queue.size());
    settle(std::move(update));
    return;
  }
  known.queued(row);
  lane->queue.push(lane->sink->order(alert), {std::move(row), pending.tries}, clock.steady_ms());
}

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

void Delivery::Impl::take_sinks(std::vector<SinkConfig> sinks) {
  lanes.reconfigure(std::move(sinks), clock.steady_ms(), [&](const engine::OutboxRow& row) { known.forget(row); });
  // What waited for a sink of that name is in the store, perhaps not due for long.
  fetch_all = true;
  std::lock_guard lock(mutex);
  published.clear();
  for (const auto& lane : lanes) published.push_back(lane->stats);
}

void Delivery::Impl::count_dead_letters(std::int64_t now) {
  if (!recount && now < count_at) return;
  count_at = now + kCountEvery;
  try {
    letters = store.count_dead_letters(clock.wall_ms() - engine::kDeadLettersKeptMs);
    recount = false;
  } catch (const engine::StoreError&) {
    // fetch() tells of the store.
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
      update.next_try_ms = kNever;
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

void Delivery::Impl::settle(engine::OutboxUpdate update) {
  known.settled(update);
  updates.push_back(std::move(update));
}

void Delivery::Impl::flush() {
  {
    std::lock_guard lock(mutex);
    published.clear();
    for (const auto& lane : lanes) {
      SinkStats& stats = lane->stats;
      stats.pending = lane->queue.size();
      stats.oldest_ms = lane->queue.oldest_ms().value_or(0);
      const auto dead = letters.find(stats.name);
      stats.dead_letters = dead == letters.end() ? 0 : dead->second;
      published.push_back(stats);
    }
    published_letters = 0;
    for (const auto& [sink, count] : letters) published_letters += count;
  }
  // After the counts, so that whoever sees an outcome finds it counted.
  if (!updates.empty()) outcomes(std::exchange(updates, {}));
}

milliseconds Delivery::Impl::wait(std::int64_t now, std::int64_t next_fetch) const {
  std::int64_t next = next_fetch;
  for (const auto& lane : lanes) {
    // A lane that is full goes on when a request ends, which ends the wait by itself.
    if (lane->in_flight < options.in_flight_per_sink) next = std::min(next, lane->queue.next_due_ms(now));
  }
  return milliseconds(std::clamp<std::int64_t>(next - now, 0, options.poll.count()));
}

Delivery::Delivery(std::vector<SinkConfig> sinks, engine::OutboxStore& store, engine::Clock& clock, DeliveryOptions options)
    : impl_(std::make_unique<Impl>(std::move(sinks), store, clock, options)) {}

Delivery::~Delivery() {
  stop();
}

void Delivery::start(Outcomes outcomes) {
  impl_->outcomes = std::move(outcomes);
  impl_->thread = std::thread([this] { impl_->run(); });
}

void Delivery::committed(const engine::CommitBatch& batch) {
  if (batch.outbox.empty() && batch.outbox_updates.empty()) return;
  bool wake = false;
  {
    std::lock_guard lock(impl_->mutex);
    if (impl_->stopping) return;
    wake = !batch.outbox.empty() || std::any_of(batch.outbox_updates.begin(), batch.outbox_updates.end(), is_replay);
    impl_->woken = impl_->woken || wake;
    impl_->durable.insert(impl_->durable.end(), batch.outbox_updates.begin(), batch.outbox_updates.end());
  }
  if (wake) impl_->sender.wake();
}

void Delivery::reconfigure(std::vector<SinkConfig> sinks) {
  {
    std::lock_guard lock(impl_->mutex);
    impl_->new_sinks = std::move(sinks);
    impl_->woken = true;
  }
  impl_->sender.wake();
}

std::uint64_t Delivery::dead_letters() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->published_letters;
}

void Delivery::stop() {
  {
    std::lock_guard lock(impl_->mutex);
    impl_->stopping = true;
  }
  impl_->sender.wake();
  if (impl_->thread.joinable()) impl_->thread.join();
}

std::vector<SinkStats> Delivery::stats() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->published;
}

}  // namespace scalewatch::alerting
