// Sinks for people: what they send, and where their secrets come from.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "server/alerting/alert_text.h"
#include "server/alerting/body_template.h"
#include "server/alerting/http_sender.h"
#include "server/alerting/message.h"
#include "server/alerting/retry_policy.h"
#include "server/alerting/signature.h"
#include "server/alerting/sink.h"
#include "tests/unit/alerting/http_server.h"
#include "tests/unit/alerting/samples.h"

namespace scalewatch::alerting {
namespace {

using Change = domain::FindingEvent::Change;
using domain::Severity;
using nlohmann::json;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr std::int64_t kNow = 1'700'000'060'000;

class PeopleSinks : public testing::Test {
 protected:
  PeopleSinks() { std::filesystem::create_directories(folder_); }
  ~PeopleSinks() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  static SinkConfig config(const std::string& type) {
    SinkConfig out;
    out.name = type;
    out.type = type;
    out.url = "http://h/in";
    out.public_url = "http://watch.example.org/";
    return out;
  }
  static v1::Alert alert() {
    domain::Finding finding = sample_finding(Severity::kCritical);
    domain::Blame blame;
    blame.tensor = "layers.3.<qkv>";
    blame.rank_of_origin = 3;
    blame.first_bad_micro = 2;
    finding.blame = blame;
    engine::RunContext run = sample_run();
    run.place_of = [](domain::Rank rank) { return engine::RunContext::Place{"node" + std::to_string(rank), "GPU-7"}; };
    v1::Alert out = sample_alert(Change::kOpened, finding, run);
    out.set_runbook("http://books/NonFiniteLoss");
    return out;
  }
  static HttpResponse run(const HttpRequest& request) {
    HttpSender sender;
    sender.start(1, request);
    for (int i = 0; i < 200; ++i) {
      const auto done = sender.poll(std::chrono::milliseconds(100));
      if (!done.empty()) return done.front().response;
    }
    ADD_FAILURE() << "it did not end";
    return {};
  }

  std::filesystem::path folder_ = std::filesystem::temp_directory_path() / ("scalewatch-sinks-" + std::to_string(::getpid()));
  v1::Alert alert_ = alert();
  Notice firing_{alert_, kFiring, "uid1/a/firing"};
};

TEST_F(PeopleSinks, TheMessageSaysWhatWhereSinceWhenHowMuchAndWhatToDo) {
  const Message message = message_of(firing_, "http://watch.example.org");
  EXPECT_EQ(message.title, "CRITICAL NonFiniteLoss in digits");
  EXPECT_EQ(message.whole(),
            "loss is NaN for 2 attempts in a row\n"
            "Where: layers.3.<qkv>, rank 3, micro-batch 2, host node3, GPU-7\n"
            "Since: attempt 40, step 38, 2023-11-14T22:13:20.000Z; now attempt 42\n"
            "Number: in_a_row 2 attempts (limit 2)\n"
            "Do: look at the data of step 38\n"
            "Labels: team=vision\n"
            "Run: http://watch.example.org/api/v1/runs/uid1\n"
            "Runbook: http://books/NonFiniteLoss");
}

TEST_F(PeopleSinks, AMessageSaysHowFarTheServerWasBehind) {
  EXPECT_EQ(behind(alert_), "");
  note_behind(alert_, 3.44);
  auto* held = alert_.add_trail();  // of the same moment
  held->set_time_ms(alert_.trail(0).time_ms());
  held->set_what("held back");
  EXPECT_THAT(message_of({alert_, kFiring, "k"}, "").text, HasSubstr("\nLate: the server was 3.4 s behind\n"));
  held->set_time_ms(held->time_ms() + 1);
  EXPECT_THAT(message_of({alert_, kFiring, "k"}, "").text, ::testing::Not(HasSubstr("Late")));
}

TEST_F(PeopleSinks, AMessageStaysShortWhateverNamesHold) {
  std::string name;
  for (int i = 0; i < 5000; ++i) name += "\xC3\xA9";
  alert_.mutable_finding()->set_summary(name);
  alert_.set_run(name);
  for (int i = 0; i < 20; ++i) alert_.add_grouped()->set_rule(name);
  alert_.set_grouped_total(400);
  const Message message = message_of(firing_, "");
  EXPECT_LE(message.title.size(), 150U);
  EXPECT_LE(message.text.size(), 1500U);
  EXPECT_TRUE(json(message.text).dump().ends_with("\""));  // throws when a character is cut in two
}

// A right-to-left override in a name turns what follows it, a zero-width space makes two names look like one.
TEST_F(PeopleSinks, NamesCannotTurnOrHideWhatPeopleRead) {
  const std::string name = "run\u202egnihton\u200b";
  const std::string shown = "run\\u202egnihton\\u200b";
  alert_.set_run(name);
  alert_.mutable_finding()->set_summary("loss of " + name);
  alert_.mutable_finding()->mutable_blame()->set_tensor(name);
  (*alert_.mutable_labels())["team"] = name;
  const Message message = message_of(firing_, "");
  EXPECT_THAT(message.title, HasSubstr(shown));
  EXPECT_THAT(message.text, HasSubstr("loss of " + shown + "\n"));
  for (const char* kind : {"slack", "pagerduty", "alertmanager"}) {
    const std::string body = make_sink(config(kind))->request(firing_, kNow).body;
    const bool labelled = std::string(kind) == "alertmanager";  // whose labels tell alerts apart, and stay as they are
    const std::string read = labelled ? json::parse(body)[0]["annotations"].dump() : body;
    EXPECT_THAT(read, Not(HasSubstr("\u202e"))) << kind;
    EXPECT_THAT(read, Not(HasSubstr("\u200b"))) << kind;
  }
}

TEST_F(PeopleSinks, TheWebhookSignsAndTellsOfTheMicroBatch) {
  SinkConfig hook = config("webhook");
  hook.key.file = file("key", "secret\n");
  hook.secret_headers["Authorization"] = {.file = file("token", "t0ken\n"), .env = {}, .prefix = "Bearer "};
  const HttpRequest request = make_sink(hook)->request(firing_, kNow);
  const std::string signature = hmac_sha256("secret", "1700000060." + request.body);
  EXPECT_THAT(request.headers, Contains("Scalewatch-Signature: t=1700000060,v1=" + signature));
  EXPECT_THAT(request.headers, Contains("Authorization: Bearer t0ken"));
  EXPECT_EQ(json::parse(request.body)["blame"]["first_bad_micro"], 2);
  EXPECT_EQ(json::parse(request.body)["where"]["hosts"][0]["host"], "node3");
  // A rotated secret is taken up.
  file("token", "n3w");
  EXPECT_THAT(make_sink(hook)->request(firing_, kNow).headers, Contains("Authorization: Bearer n3w"));
}

TEST(Signature, IsHmacSha256OfRfc4231) {
  EXPECT_EQ(hmac_sha256("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST_F(PeopleSinks, TheOperatorsTemplateIsFilledIn) {
  SinkConfig hook = config("webhook");
  hook.body =
      R"({"t": "{{title}}", "at": {{ since.attempt }}, "where": "{{where.tensor}}", "all": {{advice}}, "x": {{labels.x}}})";
  const json body = json::parse(make_sink(hook)->request(firing_, kNow).body);
  EXPECT_EQ(body["t"], "CRITICAL NonFiniteLoss in digits");
  EXPECT_EQ(body["at"], 40);
  EXPECT_EQ(body["where"], "layers.3.<qkv>");
  EXPECT_EQ(body["all"][0]["id"], "look_at_data");
  EXPECT_TRUE(body["x"].is_null());
  hook.body = "{{titel}}";
  EXPECT_THAT(validate({hook}), Contains(HasSubstr("{{titel}}")));
  hook.body = "{{title";
  EXPECT_THAT(validate({hook}), Contains(HasSubstr("without }}")));
}

TEST_F(PeopleSinks, SlackEscapesAndLinks) {
  SinkConfig slack = config("slack");
  slack.url.clear();
  ASSERT_EQ(setenv("SCALEWATCH_TEST_SLACK", "https://hooks/T0/B0", 1), 0);
  slack.url_secret.env = "SCALEWATCH_TEST_SLACK";
  EXPECT_THAT(validate({slack}), testing::IsEmpty());
  const HttpRequest request = make_sink(slack)->request(firing_, kNow);
  EXPECT_EQ(request.url, "https://hooks/T0/B0");
  const json attachment = json::parse(request.body)["attachments"][0];
  EXPECT_EQ(attachment["color"], "#e01e5a");
  EXPECT_THAT(attachment["text"].get<std::string>(), HasSubstr("layers.3.&lt;qkv&gt;"));
  EXPECT_EQ(attachment["title_link"], "http://watch.example.org/api/v1/runs/uid1");
}

TEST_F(PeopleSinks, PagerDutyTriggersAndResolvesUnderOneKey) {
  SinkConfig pager = config("pagerduty");
  pager.url.clear();
  pager.key.file = file("key", "R0UT1NG");
  EXPECT_THAT(validate({pager}), testing::IsEmpty());
  const auto sink = make_sink(pager);
  const HttpRequest trigger = sink->request(firing_, kNow);
  EXPECT_EQ(trigger.url, "https://events.pagerduty.com/v2/enqueue");
  const json event = json::parse(trigger.body);
  EXPECT_EQ(event["routing_key"], "R0UT1NG");
  EXPECT_EQ(event["event_action"], "trigger");
  EXPECT_EQ(event["payload"]["severity"], "critical");
  EXPECT_EQ(event["payload"]["source"], "node3");
  const json end = json::parse(sink->request({alert_, kResolved, "k"}, kNow).body);
  EXPECT_EQ(end["event_action"], "resolve");
  EXPECT_EQ(end["dedup_key"], event["dedup_key"]);
  const json taken = json::parse(sink->request({alert_, kAcknowledged, "k"}, kNow).body);
  EXPECT_EQ(taken, json({{"routing_key", "R0UT1NG"}, {"event_action", "acknowledge"}, {"dedup_key", event["dedup_key"]}}));
  alert_.set_id(std::string(600, 'x'));
  EXPECT_LE(json::parse(sink->request(firing_, kNow).body)["dedup_key"].get<std::string>().size(), 255U);
}

TEST_F(PeopleSinks, ACommandGetsJsonAndNoShell) {
  SinkConfig command = config("command");
  command.url.clear();
  const std::string out = (folder_ / "out").string();
  // A shell would make a file of the second argument's substitution; tee makes one of that very name.
  const std::string literal = (folder_ / "$(id)").string();
  command.command = {"/usr/bin/tee", out, literal};
  EXPECT_THAT(validate({command}), testing::IsEmpty());
  const auto sink = make_sink(command);
  EXPECT_EQ(sink->classify(run(sink->request(firing_, kNow))), Verdict::kDelivered);
  std::ifstream in(out);
  EXPECT_EQ(json::parse(in)["transition"], "firing");
  EXPECT_TRUE(std::filesystem::exists(literal));
}

TEST_F(PeopleSinks, ACommandThatFailsIsTriedAgainAndOneThatHangsIsKilled) {
  SinkConfig command = config("command");
  command.command = {"/usr/bin/false"};
  const auto failing = make_sink(command);
  HttpResponse response = run(failing->request(firing_, kNow));
  EXPECT_EQ(failing->classify(response), Verdict::kRetry);
  EXPECT_THAT(response.error, HasSubstr("exit status 1"));
  command.command = {"/usr/bin/sleep", "60"};
  command.timeout_ms = 100;
  EXPECT_THAT(run(make_sink(command)->request(firing_, kNow)).error, HasSubstr("killed"));
  command.command = {"/nowhere/program"};
  EXPECT_THAT(run(make_sink(command)->request(firing_, kNow)).error, HasSubstr("/nowhere/program cannot be started"));
  EXPECT_EQ(failing->classify({.status = 400, .error = {}, .body = {}, .retry_after = {}}), Verdict::kRejected);
}

TEST_F(PeopleSinks, ACommandGetsNoSecretsOfTheServersEnvironment) {
  ASSERT_EQ(setenv("SCALEWATCH_TEST_TOKEN", "hush-hush", 1), 0);
  ASSERT_EQ(setenv("LC_SCALEWATCH", "C", 1), 0);
  SinkConfig command = config("command");
  const std::string out = (folder_ / "environment").string();
  command.command = {"/usr/bin/cp", "/proc/self/environ", out};
  EXPECT_EQ(run(make_sink(command)->request(firing_, kNow)).status, 200);
  std::ifstream in(out, std::ios::binary);
  const std::string environment(std::istreambuf_iterator<char>(in), {});
  EXPECT_THAT(environment, AllOf(HasSubstr("PATH="), HasSubstr("LC_SCALEWATCH=C"), Not(HasSubstr("hush-hush"))));
}

TEST_F(PeopleSinks, AReceiverThatRepeatsTheRequestGetsNoSecretShown) {
  HttpServer server([](const Received& request, std::size_t) {
    Reply reply;
    reply.status = 400;
    reply.body = request.target + " " + request.body.substr(0, 100);
    for (const auto& [name, value] : request.headers) reply.body += " " + name + ": " + value;
    return reply;
  });
  SinkConfig base = config("webhook");
  base.url = server.url("/in");
  const auto told = [&](const SinkConfig& sink) { return failure_text(run(make_sink(sink)->request(firing_, kNow))); };
  SinkConfig plain = base;
  plain.url = server.url("/");
  EXPECT_THAT(told(plain), StartsWith("HTTP 400: / {"));

  std::vector<SinkConfig> secret(7, base);  // the last with a path, which is what many receivers know their senders by
  ASSERT_EQ(setenv("SCALEWATCH_TEST_URL", server.url("/T0%2FB0/hush").c_str(), 1), 0);
  secret[0].url.clear();
  secret[0].url_secret.env = "SCALEWATCH_TEST_URL";
  secret[1].secret_headers["Authorization"] = {.file = file("token", "hush"), .env = {}, .prefix = "Bearer "};
  secret[2].headers["Authorization"] = "Bearer hush";
  secret[3].type = "pagerduty";
  secret[3].key.file = file("key", "hush");
  secret[4].url = server.url("/in?token=hush");
  secret[5].type = "slack";
  for (const SinkConfig& sink : secret) EXPECT_THAT(told(sink), testing::MatchesRegex("HTTP 400: .[0-9]+ bytes, not shown.*"));

  secret[5].url = "http://hush.invalid/";
  EXPECT_THAT(told(secret[5]), AllOf(Not(HasSubstr("hush")), Not(testing::IsEmpty())));
}

TEST_F(PeopleSinks, EmailIsOneEncodedMessage) {
  SinkConfig mail = config("email");
  mail.url = "smtp://relay.example.org:587";
  mail.from = "scalewatch@example.org";
  mail.to = {"oncall@example.org", "team@example.org"};
  EXPECT_THAT(validate({mail}), testing::IsEmpty());
  alert_.set_run("digits\r\nBcc: all@example.org");
  const HttpRequest request = make_sink(mail)->request(firing_, kNow);
  EXPECT_THAT(request.body, StartsWith("From: scalewatch@example.org\r\nTo: oncall@example.org, team@example.org\r\n"));
  EXPECT_THAT(request.body, HasSubstr("Date: Tue, 14 Nov 2023 22:14:20 +0000\r\n"));
  EXPECT_THAT(request.body, Not(HasSubstr("\r\nBcc:")));
  EXPECT_EQ(make_sink(mail)->classify({.status = 550, .error = "no", .body = {}, .retry_after = {}}), Verdict::kRejected);
  EXPECT_EQ(make_sink(mail)->classify({.status = 451, .error = "later", .body = {}, .retry_after = {}}), Verdict::kRetry);
  for (const char* bad : {"", "oncall", "a b@example.org", "a@b\r\nTo: c@d", "<a@b>"}) {
    mail.to = {bad};
    EXPECT_THAT(validate({mail}), Contains(HasSubstr("is not a mail address"))) << bad;
  }
}

TEST_F(PeopleSinks, WhatATypeHasNoUseForIsRefusedAndSecretsAreNotRepeated) {
  SinkConfig hook = config("webhook");
  hook.command = {"/bin/true"};
  EXPECT_THAT(validate({hook}), Contains(HasSubstr("command: type webhook has no use for it")));
  hook = config("pagerduty");
  EXPECT_THAT(validate({hook}), Contains(HasSubstr("key_file or key_env")));
  hook = config("slack");
  hook.url.clear();
  hook.url_secret.file = file("url", "s3cret-without-scheme");
  EXPECT_THAT(validate({hook}), Contains(AllOf(HasSubstr("must begin with"), Not(HasSubstr("s3cret")))));
  hook.url_secret.file = "/nowhere/secret";
  EXPECT_THAT(validate({hook}), Contains(HasSubstr("/nowhere/secret cannot be read")));
  SinkConfig command = config("command");
  command.url.clear();
  command.command = {"true"};
  EXPECT_THAT(validate({command}), Contains(HasSubstr("whole path")));
}

}  // namespace
}  // namespace scalewatch::alerting
