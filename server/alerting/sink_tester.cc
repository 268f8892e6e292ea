#include "server/alerting/sink_tester.h"

#include <fmt/format.h>

#include <chrono>
#include <map>

#include "server/alerting/http_sender.h"
#include "server/alerting/retry_policy.h"

namespace scalewatch::alerting {

namespace {

using engine::Status;

v1::Alert sample(v1::Severity severity, std::int64_t now_ms) {
  v1::Alert alert;
  alert.set_id(fmt::format("test/ScalewatchTest/{}", now_ms));
  alert.set_run("scalewatch-test");
  alert.set_run_uid("test");
  alert.set_state(v1::ALERT_STATE_FIRING);
  alert.set_fired_ms(now_ms);
  v1::Finding& finding = *alert.mutable_finding();
  finding.set_id(alert.id());
  finding.set_rule("ScalewatchTest");
  finding.set_severity(severity);
  finding.set_summary("A test page of Scalewatch, sent by hand");
  finding.set_first_time_ms(now_ms);
  finding.set_last_time_ms(now_ms);
  return alert;
}

}  // namespace

SinkTester::SinkTester(const std::vector<SinkConfig>& sinks, engine::Clock& clock) : clock_(clock), sinks_(make_sinks(sinks)) {}

std::shared_ptr<const SinkTester::Sinks> SinkTester::make_sinks(const std::vector<SinkConfig>& sinks) {
  auto out = std::make_shared<Sinks>();
  for (const SinkConfig& config : sinks) out->push_back(make_sink(config));
  return out;
}

void SinkTester::reconfigure(const std::vector<SinkConfig>& sinks) {
  auto made = make_sinks(sinks);
  std::lock_guard lock(mutex_);
  sinks_ = std::move(made);
}

Status SinkTester::test(const v1::TestSinksRequest& request, v1::TestSinksResponse& response) {
  if (!v1::Severity_IsValid(request.severity())) {
    return {Status::kInvalidArgument, fmt::format("severity {} is not a severity", static_cast<int>(request.severity()))};
  }
  const std::unique_lock lock(testing_, std::try_to_lock);
  if (!lock) return {Status::kResourceExhausted, "another test is under way; try again when it has ended"};
  const v1::Severity severity = request.severity() == v1::SEVERITY_UNSPECIFIED ? v1::SEVERITY_CRITICAL : request.severity();
  const std::int64_t now_ms = clock_.wall_ms();
  const v1::Alert alert = sample(severity, now_ms);
  const std::string key = alert.id() + "/" + std::string(kTest);
  std::shared_ptr<const Sinks> sinks;
  {
    std::lock_guard guard(mutex_);
    sinks = sinks_;
  }
  HttpSender sender;
  std::map<std::uint64_t, std::pair<const Sink*, v1::SinkTest>> tests;
  for (const auto& sink : *sinks) {
    if (!request.sink().empty() && sink->config().name != request.sink()) continue;
    const std::uint64_t id = tests.size();
    v1::SinkTest& test = tests[id].second;
    tests[id].first = sink.get();
    test.set_sink(sink->config().name);
    test.set_type(sink->config().type);
    test.set_error("no answer");
    sender.start(id, sink->request({alert, kTest, key}, now_ms));
  }
  if (tests.empty()) {
    return request.sink().empty()
               ? Status{Status::kFailedPrecondition, "no sink is configured: see alerting.sinks of the configuration"}
               : Status{Status::kNotFound,
                        fmt::format("unknown sink '{}'; `alerts test` without --sink tests all", request.sink())};
  }
  while (sender.in_flight() > 0) {
    for (const HttpSender::Done& done : sender.poll(std::chrono::milliseconds(500))) {
      auto& [sink, test] = tests.at(done.id);
      test.set_delivered(sink->classify(done.response) == Verdict::kDelivered);
      test.set_error(test.delivered() ? std::string() : failure_text(done.response));
      test.set_seconds(done.response.took.count());
    }
  }
  for (auto& [id, test] : tests) *response.add_sinks() = std::move(test.second);
  return {};
}

}  // namespace scalewatch::alerting
