// What is owed, out of the store and into the sinks' queues.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <utility>

#include "scalewatch/v1/alerts.pb.h"
#include "server/alerting/delivery_impl.h"

namespace scalewatch::alerting {

namespace {

constexpr std::size_t kFetch = 256;          // new notices a read
constexpr std::size_t kFetchAtStart = 8192;  // what was left over, so that order is known from the beginning
constexpr std::size_t kMaxKnown = 50'000;    // notices in memory or not yet durably settled: beyond it nothing is fetched
constexpr std::int64_t kOrphanEvery = 3'600'000;
constexpr std::uint32_t kOrphanTries = 168;  // a week

}  // namespace

// Returns whether there may be more.
bool Delivery::Impl::fetch(Fetch which) {
  if (known.size() > kMaxKnown) return false;
  const bool all = which != Fetch::kDue;
  const std::size_t limit = (all ? kFetchAtStart : kFetch) + known.size();  // what is known may come again
  std::vector<engine::OutboxStore::Pending> rows;
  try {
    rows = store.due_outbox(all ? kNeverTried - 1 : clock.wall_ms(), limit);
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
    update.next_try_ms = update.tries < kOrphanTries ? clock.wall_ms() + kOrphanEvery : kNeverTried;
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
    update.next_try_ms = kNeverTried;
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

}  // namespace scalewatch::alerting
