#include "server/alerting/delivery.h"

#include <algorithm>
#include <utility>

#include "server/alerting/delivery_impl.h"

namespace scalewatch::alerting {

namespace {

using std::chrono::milliseconds;

constexpr std::int64_t kRoomPause = 100;      // at least between two looks for what a full queue left in the store
constexpr std::int64_t kCountEvery = 60'000;  // dead letters, when nothing makes some

// A dead letter that goes into the queue again.
bool is_replay(const engine::OutboxUpdate& update) {
  return !update.delivered && update.tries == 0 && update.next_try_ms == 0;
}

}  // namespace

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
