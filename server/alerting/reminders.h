// Open alerts, sent again to sinks that forget.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "scalewatch/v1/alerts.pb.h"
#include "server/alerting/sink.h"
#include "server/alerting/sink_queue.h"
#include "server/engine/ports/history_store.h"

namespace scalewatch::alerting {

struct Reminder {
  HttpRequest request;
  std::vector<std::string> orders;  // held in the queue until it ended: release them then
};

// At most 5,000. Empty, and logged, when the store can't read.
std::vector<v1::Alert> read_open_alerts(engine::OutboxStore& store);

// Alerts that the sink was never told of are left out, and those with a notice on its way: that notice says more. The others'
// later notices are held, so that a reminder can't revive what they resolve.
std::vector<Reminder> make_reminders(const Sink& sink, SinkQueue& queue, std::span<const v1::Alert> open, std::int64_t now_ms);

}  // namespace scalewatch::alerting
