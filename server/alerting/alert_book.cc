#include "server/alerting/alert_book.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <string>

#include "scalewatch/v1/alerts.pb.h"
#include "server/alerting/sink.h"
#include "server/engine/finding_codec.h"

namespace scalewatch::alerting {

namespace {

using Change = domain::FindingEvent::Change;

// Maps in a fixed order: equal alerts are equal bytes.
std::string bytes_of(const v1::Alert& alert) {
  std::string out;
  google::protobuf::io::StringOutputStream stream(&out);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  alert.SerializeToCodedStream(&coded);
  coded.Trim();
  return out;
}

v1::Alert alert_of(const engine::RunContext& run, const domain::FindingEvent& event) {
  const domain::Finding& finding = event.finding;
  v1::Alert alert;
  *alert.mutable_finding() = engine::to_proto(run.run_uid, finding);
  alert.set_id(alert.finding().id());
  alert.set_run_uid(run.run_uid);
  alert.set_run(run.name);
  alert.mutable_labels()->insert(run.labels.begin(), run.labels.end());
  alert.set_fired_ms(finding.first_time);
  alert.set_acknowledged_by(finding.acknowledged_by);
  alert.set_acknowledged_ms(finding.acknowledged_time);
  alert.set_comment(finding.acknowledge_comment);
  if (event.change == Change::kResolved) {
    alert.set_state(v1::ALERT_STATE_RESOLVED);
    alert.set_resolved_ms(finding.last_time);
  } else {
    alert.set_state(finding.acknowledged_by.empty() ? v1::ALERT_STATE_FIRING : v1::ALERT_STATE_ACKNOWLEDGED);
  }
  return alert;
}

// What a sink is told of an event; empty: nothing.
std::string transition_for(domain::Severity min_severity, const domain::FindingEvent& event) {
  const domain::Severity severity = event.finding.severity;
  if (severity < min_severity) return {};
  switch (event.change) {
    case Change::kOpened:
      return std::string(kFiring);
    case Change::kEscalated:
      if (severity == min_severity) return std::string(kFiring);
      return std::string(kEscalatedPrefix).append(severity_name(severity));
    case Change::kResolved:
      return std::string(kResolved);
    case Change::kUpdated:
    case Change::kAcknowledged:
      break;
  }
  return {};
}

}  // namespace

AlertBook::AlertBook(const std::vector<SinkConfig>& sinks, std::function<void(const engine::CommitBatch&)> on_committed)
    : targets_([&] {
        std::vector<Target> targets;
        targets.reserve(sinks.size());
        for (const SinkConfig& sink : sinks) targets.push_back({sink.name, sink.min_severity});
        return targets;
      }()),
      on_committed_(std::move(on_committed)) {}

void AlertBook::stage(const engine::RunContext& run, const std::vector<domain::FindingEvent>& events,
                      engine::CommitBatch& batch) {
  for (const domain::FindingEvent& event : events) {
    const v1::Alert alert = alert_of(run, event);
    const std::string bytes = bytes_of(alert);
    const std::int64_t changed_ms = std::max(event.finding.last_time, event.finding.acknowledged_time);
    batch.alerts.push_back({.id = alert.id(),
                            .run_uid = run.run_uid,
                            .rule = event.finding.rule,
                            .severity = static_cast<std::int32_t>(event.finding.severity),
                            .state = alert.state(),
                            .fired_ms = alert.fired_ms(),
                            .changed_ms = changed_ms,
                            .alert = bytes});
    for (const Target& target : targets_) {
      const std::string transition = transition_for(target.min_severity, event);
      if (transition.empty()) continue;
      batch.outbox.push_back({.key = alert.id() + "/" + transition,
                              .sink = target.sink,
                              .alert_id = alert.id(),
                              .transition = transition,
                              .created_ms = changed_ms,
                              .alert = bytes});
    }
  }
}

void AlertBook::committed(const engine::CommitBatch& batch) {
  if (on_committed_) on_committed_(batch);
}

}  // namespace scalewatch::alerting
