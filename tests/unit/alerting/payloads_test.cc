// What each sink sends, held against what its receiver documents; and that the check itself tells wrong payloads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>

#include "server/alerting/sink.h"
#include "server/alerting/watchdog.h"
#include "tests/unit/alerting/samples.h"
#include "tests/unit/alerting/vendor_schemas.h"

namespace scalewatch::alerting {
namespace {

using Change = domain::FindingEvent::Change;
using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr std::int64_t kNow = 1'700'000'060'000;

std::unique_ptr<Sink> sink_of(const std::string& type) {
  setenv("SCALEWATCH_TEST_PAYLOADS_KEY", "0123456789abcdef0123456789abcdef", 1);
  SinkConfig config;
  config.name = config.type = type;
  config.public_url = "https://watch.example.org";
  if (type != "command") config.url = type == "email" ? "smtp://h:25" : "http://h/";
  if (type == "pagerduty") config.key.env = "SCALEWATCH_TEST_PAYLOADS_KEY";
  config.command = {"/bin/true"};
  config.from = "scalewatch@example.org";
  config.to = {"a@example.org", "b@example.org"};
  return make_sink(config);
}

v1::Alert alert_of(Change change) {
  domain::Finding finding = sample_finding(domain::Severity::kCritical);
  domain::Blame blame;
  blame.tensor = "layers.3.<qkv> & \"more\"\n\xC3\xA9";
  blame.role = Role::kActivation;
  blame.rank_of_origin = 3;
  finding.blame = blame;
  engine::RunContext run = sample_run();
  run.labels = {{"team", "vision"}, {"cluster", "a & b <c>"}};
  run.place_of = [](domain::Rank) { return engine::RunContext::Place{"node3", "GPU-7"}; };
  v1::Alert alert = sample_alert(change, finding, run);
  alert.set_runbook("https://books/NonFiniteLoss");
  return alert;
}

// Every payload that the sink has, by transition.
void each_payload(const std::string& type,
                  const std::function<void(const std::string& body, const std::string& transition)>& visit) {
  const auto sink = sink_of(type);
  for (const char* transition :
       {"firing", "escalated:critical", "repeated:2", "digest:3", "acknowledged", "resolved", "test", "watchdog"}) {
    const SinkType* known = find_sink_type(type);
    if (transition == kAcknowledged && (known->uses & SinkType::kAcknowledges) == 0) continue;
    if (transition == kWatchdog && (known->uses & SinkType::kWatches) == 0) continue;
    v1::Alert alert = transition == kWatchdog ? watchdog_alert(kNow - 1000, kNow, "https://books/Watchdog")
                                              : alert_of(transition == kResolved ? Change::kResolved : Change::kOpened);
    if (transition == std::string("digest:3")) {
      for (int i = 0; i < 20; ++i) {
        v1::GroupedAlert& other = *alert.add_grouped();
        other.set_id("uid2/x");
        other.set_rule("RankLost");
        other.set_severity(v1::SEVERITY_WARNING);
      }
      alert.set_grouped_total(300);
    }
    visit(sink->request({alert, transition, alert.id() + "/" + transition}, kNow).body, transition);
  }
}

// The firing, changed in some way that its receiver would refuse.
struct Wrong {
  const char* what;
  std::function<void(json&)> change;
};
void expect_refused(const std::string& type, std::string (*fault)(const json&), const std::vector<Wrong>& all) {
  EXPECT_GE(all.size(), 10U);
  each_payload(type, [&](const std::string& body, const std::string& transition) {
    EXPECT_THAT(fault(json::parse(body)), IsEmpty()) << type << ' ' << transition;
    if (transition != kWatchdog && transition != kAcknowledged && !(type == "pagerduty" && transition == kResolved)) {
      EXPECT_THAT(body, HasSubstr("vision")) << "the run's labels are missing: " << type << ' ' << transition;
    }
    if (transition != kFiring) return;
    for (const Wrong& wrong : all) {
      json changed = json::parse(body);
      wrong.change(changed);
      EXPECT_THAT(fault(changed), Not(IsEmpty())) << type << ": " << wrong.what;
    }
  });
}

TEST(Payloads, PagerDuty) {
  expect_refused("pagerduty", pagerduty_fault,
                 {{"no routing key", [](json& e) { e.erase("routing_key"); }},
                  {"a short routing key", [](json& e) { e["routing_key"] = "R0UT1NG"; }},
                  {"an unknown action", [](json& e) { e["event_action"] = "firing"; }},
                  {"a long dedup_key", [](json& e) { e["dedup_key"] = std::string(256, 'k'); }},
                  {"no payload", [](json& e) { e.erase("payload"); }},
                  {"no summary", [](json& e) { e["payload"].erase("summary"); }},
                  {"an empty summary", [](json& e) { e["payload"]["summary"] = ""; }},
                  {"a long summary", [](json& e) { e["payload"]["summary"] = std::string(1025, 's'); }},
                  {"no source", [](json& e) { e["payload"]["source"] = ""; }},
                  {"an unknown severity", [](json& e) { e["payload"]["severity"] = "fatal"; }},
                  {"a time in milliseconds", [](json& e) { e["payload"]["timestamp"] = 1'700'000'000'000; }},
                  {"details as text", [](json& e) { e["payload"]["custom_details"] = "none"; }},
                  {"a link without an address",
                   [](json& e) {
                     e["links"] = json::array({{{"text", "Run"}}});
                   }},
                  {"an unknown field", [](json& e) { e["summary"] = "here"; }},
                  {"an acknowledgement of nothing", [](json& e) {
                     e["event_action"] = "acknowledge";
                     e.erase("dedup_key");
                   }}});
}

TEST(Payloads, Alertmanager) {
  expect_refused("alertmanager", alertmanager_fault,
                 {{"no array", [](json& a) { a = a[0]; }},
                  {"no labels", [](json& a) { a[0].erase("labels"); }},
                  {"empty labels", [](json& a) { a[0]["labels"] = json::object(); }},
                  {"no name", [](json& a) { a[0]["labels"].erase("alertname"); }},
                  {"a label with a dash", [](json& a) { a[0]["labels"]["my-team"] = "x"; }},
                  {"a label that is empty", [](json& a) { a[0]["labels"]["team"] = ""; }},
                  {"a label that is a number", [](json& a) { a[0]["labels"]["rank"] = 3; }},
                  {"an annotation that is an object", [](json& a) { a[0]["annotations"]["x"] = json::object(); }},
                  {"a start in milliseconds", [](json& a) { a[0]["startsAt"] = 1'700'000'000'000; }},
                  {"a start without a zone", [](json& a) { a[0]["startsAt"] = "2023-11-14T22:13:20"; }},
                  {"an end before the start", [](json& a) { a[0]["endsAt"] = "2001-01-01T00:00:00Z"; }},
                  {"an address that is none", [](json& a) { a[0]["generatorURL"] = "not an address"; }},
                  {"an unknown field", [](json& a) { a[0]["status"] = "firing"; }}});
}

TEST(Payloads, Slack) {
  expect_refused(
      "slack", slack_fault,
      {{"no text", [](json& m) { m.erase("text"); }},
       {"text that is a number", [](json& m) { m["text"] = 7; }},
       {"a mention", [](json& m) { m["text"] = "<!channel>"; }},
       {"a bare ampersand", [](json& m) { m["attachments"][0]["text"] = "a & b"; }},
       {"attachments as an object", [](json& m) { m["attachments"] = m["attachments"][0]; }},
       {"too many attachments", [](json& m) { m["attachments"] = json(std::vector<json>(101, m["attachments"][0])); }},
       {"no fallback", [](json& m) { m["attachments"][0].erase("fallback"); }},
       {"a colour by name", [](json& m) { m["attachments"][0]["color"] = "red"; }},
       {"a short colour", [](json& m) { m["attachments"][0]["color"] = "#e01"; }},
       {"a link that is none", [](json& m) { m["attachments"][0]["title_link"] = "watch"; }},
       {"a time as text", [](json& m) { m["attachments"][0]["ts"] = "1700000000"; }},
       {"a time with a fraction", [](json& m) { m["attachments"][0]["ts"] = 1.5; }},
       {"an unknown field", [](json& m) { m["attachments"][0]["severity"] = "critical"; }}});
}

const std::vector<Wrong>& wrong_webhooks() {
  static const std::vector<Wrong> all{
      {"another version", [](json& b) { b["version"] = 2; }},
      {"no key", [](json& b) { b["key"] = ""; }},
      {"no alert", [](json& b) { b.erase("alert_id"); }},
      {"an unknown transition", [](json& b) { b["transition"] = "opened"; }},
      {"an unknown state", [](json& b) { b["state"] = "silenced"; }},
      {"no labels", [](json& b) { b.erase("labels"); }},
      {"a label that is a number", [](json& b) { b["labels"]["rank"] = 3; }},
      {"an unknown severity", [](json& b) { b["severity"] = "fatal"; }},
      {"no summary", [](json& b) { b["summary"] = ""; }},
      {"a moment without its step", [](json& b) { b["since"].erase("step"); }},
      {"a time in milliseconds", [](json& b) { b["last"]["time"] = 1'700'000'000'000; }},
      {"an end of what is open", [](json& b) { b["resolved_at"] = "2023-11-14T22:13:20Z"; }},
      {"evidence without a value", [](json& b) { b["evidence"][0].erase("value"); }},
      {"a NaN as null", [](json& b) { b["evidence"][0]["value"] = nullptr; }},
      {"ranks that are no list", [](json& b) { b["where"]["ranks"] = 3; }},
      {"more listed than counted", [](json& b) { b["grouped"] = json::array({json::object()}); }},
      {"an unknown field", [](json& b) { b["status"] = "firing"; }}};
  return all;
}

TEST(Payloads, Webhook) {
  expect_refused("webhook", webhook_fault, wrong_webhooks());
}

TEST(Payloads, Command) {
  expect_refused("command", webhook_fault, wrong_webhooks());
}

TEST(Payloads, Email) {
  const std::vector<std::pair<const char*, std::function<void(std::string&)>>> wrong{
      {"no From", [](std::string& m) { m.erase(0, m.find("To:")); }},
      {"two recipients' lines", [](std::string& m) { m.insert(0, "To: c@example.org\r\n"); }},
      {"a bare line feed", [](std::string& m) { m.replace(m.find("\r\n"), 2, "\n"); }},
      {"a subject in UTF-8", [](std::string& m) { m.insert(m.find("=?UTF-8"), "\xC3\xA9"); }},
      {"a subject that is not encoded", [](std::string& m) { m.insert(m.find("=?UTF-8"), "CRITICAL "); }},
      {"a date without a day", [](std::string& m) { m.erase(m.find("Tue, "), 5); }},
      {"no date", [](std::string& m) { m.erase(m.find("Date:"), m.find("Message-ID:") - m.find("Date:")); }},
      {"a Message-ID without a host", [](std::string& m) { m.erase(m.find("@example.org>"), 12); }},
      {"no MIME-Version", [](std::string& m) { m.erase(m.find("MIME-Version: 1.0\r\n"), 19); }},
      {"a body in clear", [](std::string& m) { m += "the loss is NaN\r\n"; }},
      {"a body in one line", [](std::string& m) { m += std::string(80, 'A') + "\r\n"; }},
      {"a long line", [](std::string& m) { m.insert(m.find("Date:"), "X: " + std::string(1000, 'x') + "\r\n"); }},
      {"a last line without an end", [](std::string& m) { m.resize(m.size() - 2); }},
      {"no head", [](std::string& m) { m.erase(0, m.find("\r\n\r\n") + 4); }}};
  each_payload("email", [&](const std::string& message, const std::string& transition) {
    EXPECT_THAT(email_fault(message), IsEmpty()) << transition << '\n' << message;
    if (transition != kFiring) return;
    for (const auto& [what, change] : wrong) {
      std::string changed = message;
      change(changed);
      EXPECT_THAT(email_fault(changed), Not(IsEmpty())) << what;
    }
  });
}

TEST(Payloads, PeopleReadTheRunsLabels) {
  const v1::Alert alert = alert_of(Change::kOpened);
  const json slack = json::parse(sink_of("slack")->request({alert, kFiring, "k"}, kNow).body);
  EXPECT_THAT(slack["attachments"][0]["text"].get<std::string>(),
              HasSubstr("Labels: cluster=a &amp; b &lt;c&gt;, team=vision"));
}

}  // namespace
}  // namespace scalewatch::alerting
