// Findings and alerts that the tests share.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "server/alerting/alert_book.h"
#include "server/domain/finding.h"

namespace scalewatch::alerting {

inline domain::Finding sample_finding(domain::Severity severity) {
  domain::Finding finding;
  finding.id = "NonFiniteLoss//1/40";
  finding.rule = "NonFiniteLoss";
  finding.severity = severity;
  finding.segment = 1;
  finding.first_attempt = 40;
  finding.last_attempt = 42;
  finding.first_step = 38;
  finding.last_step = 39;
  finding.ranks = {3};
  finding.summary = "loss is NaN for 2 attempts in a row";
  finding.evidence = {{"in_a_row", 2, "attempts", 2.0}};
  finding.advice = {{"look_at_data", "look at the data of step 38", 0.8}};
  finding.first_time = 1'700'000'000'000;
  finding.last_time = 1'700'000'001'500;
  return finding;
}

inline engine::RunContext sample_run() {
  return {"uid1", "digits", {{"team", "vision"}}};
}

// Time that the test moves; both clocks together.
class TestClock : public engine::Clock {
 public:
  [[nodiscard]] std::int64_t wall_ms() const override { return now + shift; }
  [[nodiscard]] std::int64_t steady_ms() const override { return now; }
  std::int64_t now = 1'700'000'002'000;
  std::int64_t shift = 0;  // how far the wall clock is ahead
};

// The sinks as programs: every alert on its own, at once.
inline std::vector<SinkConfig> each_alone(std::vector<SinkConfig> sinks) {
  for (SinkConfig& sink : sinks) {
    sink.group = false;
    sink.pages_per_minute = 0;
  }
  return sinks;
}

// The alert of a transition, as the book makes it.
inline v1::Alert sample_alert(domain::FindingEvent::Change change, const domain::Finding& finding,
                              const engine::RunContext& run = sample_run()) {
  engine::CommitBatch batch;
  TestClock clock;
  AlertBook({}, {}, clock, nullptr).stage(run, {{change, finding}}, batch);
  v1::Alert alert;
  alert.ParseFromString(batch.alerts.at(0).alert);
  return alert;
}

}  // namespace scalewatch::alerting
