// What becomes of a delivery when pages are given up, are damaged, go nowhere, and when the operator changes the sinks.
#include <nlohmann/json.hpp>

#include "tests/unit/alerting/delivery_fixture.h"

namespace scalewatch::alerting {
namespace {

using Change = domain::FindingEvent::Change;
using nlohmann::json;
using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;

class DeliveryLifeTest : public DeliveryTest {
 protected:
  template <class Condition>
  void wait_until(const Condition& condition) {
    for (int i = 0; i < 2000 && !condition(); ++i) std::this_thread::sleep_for(milliseconds(10));
    EXPECT_TRUE(condition());
  }
  SinkStats stats(const std::string& name) {
    for (const SinkStats& each : delivery_->stats()) {
      if (each.name == name) return each;
    }
    return {};
  }
};

TEST_F(DeliveryLifeTest, AGivenUpPageIsADeadLetterAndIsSentAgainUnderItsKey) {
  options_.retry.rejected_tries = 2;
  options_.poll = milliseconds(20);
  std::atomic<int> status{404};
  HttpServer server([&](const Received&, std::size_t) { return answer(status); });
  start({sink("hook", server.url())});
  const std::string key = event(Change::kOpened) + "/firing";
  const auto dead = store_.wait(key, "hook", [](const auto& last) { return last.given_up_ms > 0; });
  EXPECT_GE(clock_.wall_ms(), dead.given_up_ms);
  wait_until([&] { return stats("hook").dead_letters == 1; });
  EXPECT_EQ(delivery_->dead_letters(), 1U);
  EXPECT_EQ(server.received().size(), 2U);

  status = 200;
  engine::CommitBatch batch;
  batch.outbox_updates.push_back({.key = key,
                                  .sink = "hook",
                                  .delivered = false,
                                  .tries = 0,
                                  .next_try_ms = 0,
                                  .last_error = "sent again by ada",
                                  .given_up_ms = 0,
                                  .again = false});
  commit(batch);
  EXPECT_EQ(store_.wait_delivered(key, "hook").tries, 1U);
  EXPECT_THAT(keys(server.received()), ElementsAre(key, key, key));
  wait_until([&] { return stats("hook").dead_letters == 0; });
}

TEST_F(DeliveryLifeTest, WhatTheDiskHasDamagedIsNotSentAsTrue) {
  HttpServer server([](const Received&, std::size_t) { return answer(200); });
  store_.damaged = {"uid1/R//1/1/firing"};
  start({sink("hook", server.url())});
  event(Change::kOpened);
  const auto dead = store_.wait("uid1/R//1/1/firing", "hook", [](const auto& last) { return last.given_up_ms > 0; });
  EXPECT_THAT(dead.last_error, HasSubstr("damaged"));
  store_.wait_delivered(event(Change::kOpened, domain::Severity::kCritical, "S//1/1") + "/firing", "hook");
  EXPECT_EQ(server.received().size(), 1U);
}

TEST_F(DeliveryLifeTest, NothingIsSentWhereTheOperatorAllowsNothing) {
  options_.retry.rejected_tries = 1;
  HttpServer server([](const Received&, std::size_t) { return answer(200); });
  // "localtest.invalid" never resolves; localhost is loopback by its name, and 127.0.0.1 by its digits.
  SinkConfig listed = sink("listed", server.url());
  listed.destinations = {.hosts = {"127.0.0.1"}, .loopback = false};
  SinkConfig unlisted = sink("unlisted", server.url());
  unlisted.destinations = {.hosts = {"*.example.org"}, .loopback = true};
  SinkConfig loopback = sink("loopback", server.url());
  loopback.destinations.loopback = false;
  SinkConfig metadata = sink("metadata", "http://169.254.169.254/latest");
  start({listed, unlisted, loopback, metadata});
  const std::string key = event(Change::kOpened) + "/firing";
  store_.wait_delivered(key, "listed");
  for (const auto& [name, why] : std::vector<std::pair<std::string, std::string>>{
           {"unlisted", "not in alerting.allowed_hosts"}, {"loopback", "this machine itself"}, {"metadata", "link-local"}}) {
    const auto update = store_.wait(key, name, [](const auto& last) { return last.given_up_ms > 0; });
    EXPECT_THAT(update.last_error, HasSubstr(why)) << name;
  }
  EXPECT_EQ(server.received().size(), 1U);
}

TEST_F(DeliveryLifeTest, TheWatchdogComesAgainAndAgainAndIsStoredNowhere) {
  options_.poll = milliseconds(20);
  HttpServer server([](const Received&, std::size_t) { return answer(200); });
  SinkConfig watched = sink("hook", server.url());
  watched.watchdog_ms = 30;
  watched.watchdog_runbook = "http://books/Watchdog";
  SinkConfig alertmanager = sink("am", server.url(), "alertmanager");
  alertmanager.watchdog_ms = 30;
  alertmanager.watchdog_runbook = watched.watchdog_runbook;
  start({watched, alertmanager, sink("other", server.url("/other"))});
  const auto requests = server.wait_for(8);
  std::set<std::string> keys;
  for (const Received& request : requests) {
    const json body = json::parse(request.body);
    if (request.target == "/api/v2/alerts") {
      EXPECT_EQ(body[0]["labels"], json({{"alertname", "Watchdog"}, {"severity", "info"}}));
      EXPECT_GT(body[0]["endsAt"], body[0]["startsAt"]);
      EXPECT_EQ(body[0]["annotations"]["runbook_url"], "http://books/Watchdog");
      continue;
    }
    EXPECT_EQ(request.target, "/");
    EXPECT_EQ(body["transition"], "watchdog");
    EXPECT_EQ(body["rule"], "Watchdog");
    EXPECT_EQ(body["state"], "firing");
    EXPECT_TRUE(keys.insert(request.headers.at("idempotency-key")).second);
  }
  EXPECT_GE(keys.size(), 2U);
  wait_until([&] { return stats("hook").watchdogs >= 2; });
  EXPECT_EQ(stats("hook").delivered, 0U);
  EXPECT_TRUE(store_.due_outbox(std::numeric_limits<std::int64_t>::max(), 10).empty());
}

TEST_F(DeliveryLifeTest, NewSinksTakeOverWhatWaits) {
  options_.poll = milliseconds(20);
  options_.retry.backoff_min = options_.retry.backoff_max = std::chrono::hours(1);
  HttpServer down([](const Received&, std::size_t) { return answer(503); });
  HttpServer up([](const Received&, std::size_t) { return answer(200); });
  start({sink("moved", down.url()), sink("gone", down.url("/gone")), sink("kept", up.url("/kept"))});
  const std::string key = event(Change::kOpened) + "/firing";
  store_.wait_delivered(key, "kept");
  for (const char* name : {"moved", "gone"}) store_.wait(key, name, [](const auto& last) { return last.tries == 1; });

  // It is tried at the new address at once; nobody else hears anything twice.
  delivery_->reconfigure({sink("kept", up.url("/kept")), sink("moved", up.url("/moved"))});
  store_.wait_delivered(key, "moved");
  EXPECT_EQ(up.received().size(), 2U);
  EXPECT_EQ(stats("kept").delivered, 1U);
  ASSERT_EQ(delivery_->stats().size(), 2U);

  // One that is back finds what waited for it.
  delivery_->reconfigure({sink("gone", up.url("/gone"))});
  store_.wait_delivered(key, "gone");
  EXPECT_THAT(keys(up.received()), ElementsAre(key, key, key));
}

TEST_F(DeliveryLifeTest, RequestsUnderWayEndAsTheyBeganWhenTheirSinkGoes) {
  options_.poll = milliseconds(20);
  std::atomic<bool> arrived{false};
  std::atomic<bool> go{false};
  HttpServer slow([&](const Received&, std::size_t) {
    arrived = true;
    while (!go) std::this_thread::sleep_for(milliseconds(2));
    return answer(200);
  });
  start({sink("slow", slow.url())});
  const std::string key = event(Change::kOpened) + "/firing";
  wait_until([&] { return arrived.load(); });
  delivery_->reconfigure({});
  wait_until([&] { return delivery_->stats().empty(); });
  go = true;
  store_.wait_delivered(key, "slow");
  EXPECT_EQ(slow.received().size(), 1U);
}

}  // namespace
}  // namespace scalewatch::alerting
