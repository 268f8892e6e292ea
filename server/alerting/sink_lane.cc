#include "server/alerting/sink_lane.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace scalewatch::alerting {

SinkLane::SinkLane(SinkConfig config) {
  stats.name = config.name;
  stats.type = config.type;
  sink = make_sink(std::move(config));
}

void SinkLane::note(Verdict verdict, const HttpResponse& response, std::int64_t now) {
  if (verdict == Verdict::kDelivered) {
    if (std::exchange(failing, false)) spdlog::info("sink '{}' takes alerts again", stats.name);
    return;
  }
  ++stats.failed;
  if (verdict != Verdict::kRetry) return;
  if (response.retry_after) paused_until = now + response.retry_after->count();
  if (!std::exchange(failing, true)) {
    spdlog::warn("sink '{}' does not take alerts, they are kept and tried again: {}", stats.name, failure_text(response));
  }
}

bool SinkLane::takes_watchdog(std::int64_t now) {
  const auto every = sink->config().watchdog_ms;
  if (!every || now < watchdog_at || now < paused_until || watchdogs_in_flight > 0) return false;
  watchdog_at = now + *every;
  return true;
}

SinkLanes::SinkLanes(std::vector<SinkConfig> sinks) {
  for (SinkConfig& config : sinks) lanes_.push_back(std::make_unique<SinkLane>(std::move(config)));
}

void SinkLanes::reconfigure(std::vector<SinkConfig> sinks, std::int64_t now,
                            const std::function<void(const engine::OutboxRow&)>& dropped) {
  std::vector<std::unique_ptr<SinkLane>> old = std::exchange(lanes_, {});
  for (SinkConfig& config : sinks) {
    const auto same = std::find_if(old.begin(), old.end(), [&](const auto& lane) {
      return lane != nullptr && lane->stats.name == config.name && lane->stats.type == config.type;
    });
    if (same == old.end()) {
      lanes_.push_back(std::make_unique<SinkLane>(std::move(config)));
      continue;
    }
    SinkLane& lane = **same;
    lane.sink = make_sink(std::move(config));
    lane.paused_until = lane.remind_at = lane.watchdog_at = 0;
    lane.queue.hurry(now);
    lanes_.push_back(std::move(*same));
  }
  for (auto& lane : old) {
    if (lane == nullptr) continue;
    for (const engine::OutboxRow& row : lane->queue.drain()) dropped(row);
    lane->retired = true;
    if (!lane->idle()) retired_.push_back(std::move(lane));
  }
}

SinkLane* SinkLanes::find(const std::string& sink) const {
  const auto found = std::find_if(lanes_.begin(), lanes_.end(), [&](const auto& lane) { return lane->stats.name == sink; });
  return found == lanes_.end() ? nullptr : found->get();
}

void SinkLanes::landed(const SinkLane& lane) {
  if (!lane.retired || !lane.idle()) return;
  std::erase_if(retired_, [&](const auto& each) { return each.get() == &lane; });
}

}  // namespace scalewatch::alerting
