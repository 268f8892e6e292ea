#include "server/alerting/reminders.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace scalewatch::alerting {

namespace {

constexpr std::size_t kMaxOpen = 5000;
constexpr std::size_t kAtOnce = 500;  // in one request

bool was_told(const v1::Alert& alert, const std::string& sink) {
  return std::any_of(alert.pages().begin(), alert.pages().end(), [&](const v1::Page& page) { return page.sink() == sink; });
}

}  // namespace

std::vector<v1::Alert> read_open_alerts(engine::OutboxStore& store) {
  std::vector<v1::Alert> out;
  try {
    const std::vector<engine::AlertRow> rows = store.open_alerts(kMaxOpen);
    if (rows.size() == kMaxOpen) spdlog::warn("{} alerts or more are open: sinks are reminded of these only", kMaxOpen);
    for (const engine::AlertRow& row : rows) {
      v1::Alert alert;
      // One whose page still waits for its group may have resolved.
      if (alert.ParseFromString(row.alert) && alert.state() != v1::ALERT_STATE_RESOLVED) out.push_back(std::move(alert));
    }
  } catch (const engine::StoreError& error) {
    spdlog::error("open alerts cannot be read, so sinks are not reminded of them now: {}", error.what());
  }
  return out;
}

std::vector<Reminder> make_reminders(const Sink& sink, SinkQueue& queue, std::span<const v1::Alert> open, std::int64_t now_ms) {
  std::vector<Reminder> out;
  std::vector<v1::Alert> chunk;
  std::vector<std::string> orders;
  const auto close = [&] {
    if (chunk.empty()) return;
    out.push_back({sink.reminder(chunk, now_ms), std::exchange(orders, {})});
    chunk.clear();
  };
  for (const v1::Alert& alert : open) {
    if (!was_told(alert, sink.config().name)) continue;
    std::string order = sink.order(alert);
    if (queue.has(order)) continue;
    queue.hold(order);
    orders.push_back(std::move(order));
    chunk.push_back(alert);
    if (chunk.size() == kAtOnce) close();
  }
  close();
  return out;
}

}  // namespace scalewatch::alerting
