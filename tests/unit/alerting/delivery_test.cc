#include "server/alerting/delivery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "tests/unit/alerting/delivery_fixture.h"

namespace scalewatch::alerting {
namespace {

using Change = domain::FindingEvent::Change;
using domain::Severity;
using nlohmann::json;
using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(DeliveryTest, DeliversWhenCommittedWithoutPolling) {
  options_.poll = std::chrono::hours(1);
  HttpServer server([](const Received&, std::size_t) { return answer(200); });
  start({sink("hook", server.url("/in?x=1"))});
  const std::string id = event(Change::kOpened);
  const auto update = store_.wait_delivered(id + "/firing", "hook");
  EXPECT_EQ(update.tries, 1U);
  EXPECT_EQ(update.last_error, "");
  const auto requests = server.received();
  ASSERT_EQ(requests.size(), 1U);
  EXPECT_EQ(requests[0].target, "/in?x=1");
  EXPECT_THAT(requests[0].headers.at("user-agent"), testing::StartsWith("scalewatch/"));
  EXPECT_EQ(json::parse(requests[0].body)["key"], id + "/firing");
}

TEST_F(DeliveryTest, TriesAgainWithTheSameKeyWhateverWentWrong) {
  options_.poll = milliseconds(20);
  HttpServer server([](const Received&, std::size_t index) {
    switch (index) {
      case 0:
        return answer(500, "out of\nluck", "Connection: close\r\n");  // else libcurl itself tries the closed one again
      case 1:
        return doing(Reply::How::kClose);
      case 2:
        return doing(Reply::How::kHang);
      case 3:
        return answer(408);
      default:
        return answer(204);
    }
  });
  SinkConfig config = sink("hook", server.url());
  config.timeout_ms = 150;
  start({config});
  const std::string id = event(Change::kOpened);
  const auto failed = store_.wait(id + "/firing", "hook", [](const auto& update) { return update.tries >= 1; });
  if (failed.tries == 1) {
    EXPECT_EQ(failed.last_error, "HTTP 500: out of luck");
  }
  const auto delivered = store_.wait_delivered(id + "/firing", "hook");
  EXPECT_EQ(delivered.tries, 5U);
  EXPECT_THAT(keys(server.received()), testing::AllOf(testing::SizeIs(5), testing::Each(id + "/firing")));
}

TEST_F(DeliveryTest, ResolveWaitsForItsFiring) {
  std::atomic<bool> up{false};
  HttpServer server([&](const Received&, std::size_t) { return answer(up ? 200 : 503); });
  start({sink("hook", server.url())});
  const std::string id = event(Change::kOpened);
  event(Change::kResolved);
  server.wait_for(3);
  up = true;
  store_.wait_delivered(id + "/resolved", "hook");
  const auto all = keys(server.received());
  EXPECT_THAT(std::vector<std::string>(all.begin(), all.end() - 1), testing::Each(id + "/firing"));
  EXPECT_EQ(all.back(), id + "/resolved");
}

TEST_F(DeliveryTest, RetryAfterHoldsTheWholeSink) {
  HttpServer server(
      [](const Received&, std::size_t index) { return index == 0 ? answer(429, "", "Retry-After: 3600\r\n") : answer(200); });
  HttpServer other([](const Received&, std::size_t) { return answer(200); });
  start({sink("hook", server.url()), sink("other", other.url())});
  const std::string first = event(Change::kOpened);
  const std::int64_t now = clock_.wall_ms();
  const auto update = store_.wait(first + "/firing", "hook", [](const auto& last) { return last.tries == 1; });
  EXPECT_GE(update.next_try_ms, now + 3'500'000);
  const std::string second = event(Change::kOpened, Severity::kCritical, "S//1/1");
  store_.wait_delivered(second + "/firing", "other");
  EXPECT_THAT(keys(server.received()), ElementsAre(first + "/firing"));
}

TEST_F(DeliveryTest, NothingIsSentTwiceWhileItsOutcomeIsNotDurable) {
  options_.poll = milliseconds(1);
  keep_outcomes_ = true;
  HttpServer server([](const Received&, std::size_t index) { return answer(index == 0 ? 500 : 200); });
  start({sink("hook", server.url())});
  const std::string id = event(Change::kOpened);
  server.wait_for(2);
  {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(kept_changed_.wait_for(lock, std::chrono::seconds(20), [&] { return kept_.size() == 2; }));
  }
  store_.wait_reads(5);  // the store still says that it is due
  EXPECT_EQ(server.received().size(), 2U);
  // The failed try becomes durable before the delivery does: still not sent again.
  engine::CommitBatch first;
  first.outbox_updates = {kept_[0]};
  first.outbox_updates[0].next_try_ms = 0;
  commit(first);
  store_.wait_reads(5);
  EXPECT_EQ(server.received().size(), 2U);
  engine::CommitBatch second;
  second.outbox_updates = {kept_[1]};
  commit(second);
  store_.wait_reads(5);
  EXPECT_EQ(server.received().size(), 2U);
}

TEST_F(DeliveryTest, AfterARestartWhatIsNotMarkedIsSentAgainWithItsKey) {
  HttpServer server([](const Received&, std::size_t) { return answer(200); });
  keep_outcomes_ = true;
  start({sink("hook", server.url())});
  const std::string id = event(Change::kOpened);
  server.wait_for(1);
  stop();
  keep_outcomes_ = false;
  start(sinks_);
  store_.wait_delivered(id + "/firing", "hook");
  EXPECT_THAT(keys(server.received()), ElementsAre(id + "/firing", id + "/firing"));
}

TEST_F(DeliveryTest, RestartKeepsTheOrderOfWhatWaits) {
  HttpServer down([](const Received&, std::size_t) { return answer(503, "", "Retry-After: 3600\r\n"); });
  start({sink("hook", down.url())});
  const std::string id = event(Change::kOpened);
  store_.wait(id + "/firing", "hook", [](const auto& update) { return update.tries == 1; });
  event(Change::kResolved);
  stop();
  HttpServer up([](const Received&, std::size_t) { return answer(200); });
  start({sink("hook", up.url())});
  store_.wait_delivered(id + "/resolved", "hook");
  EXPECT_THAT(keys(up.received()), ElementsAre(id + "/firing", id + "/resolved"));
}

TEST_F(DeliveryTest, ADeadSinkDelaysNoOther) {
  HttpServer dead([](const Received&, std::size_t) { return doing(Reply::How::kHang); });
  HttpServer alive([](const Received&, std::size_t) { return answer(200); });
  start({sink("dead", dead.url()), sink("alive", alive.url())});
  for (int i = 0; i < 50; ++i) event(Change::kOpened, Severity::kCritical, "R//1/" + std::to_string(i));
  for (int i = 0; i < 50; ++i) store_.wait_delivered("uid1/R//1/" + std::to_string(i) + "/firing", "alive");
  // All of them hang there still, no more at once than allowed.
  EXPECT_LE(dead.received().size(), options_.in_flight_per_sink);
  EXPECT_EQ(delivery_->stats().at(0).delivered, 0U);
}

TEST_F(DeliveryTest, RejectedIsTriedSlowlyThenGivenUpForAllToSee) {
  options_.retry.rejected_tries = 3;
  options_.poll = milliseconds(20);
  HttpServer server([](const Received&, std::size_t) { return answer(404, "no such hook"); });
  start({sink("hook", server.url())});
  const std::string id = event(Change::kOpened);
  const auto update = store_.wait(id + "/firing", "hook", [](const auto& last) { return last.tries == 3; });
  EXPECT_FALSE(update.delivered);
  EXPECT_EQ(update.last_error, "given up after 3 tries: HTTP 404: no such hook");
  EXPECT_EQ(update.next_try_ms, std::numeric_limits<std::int64_t>::max());
  store_.wait_reads(1);
  EXPECT_EQ(server.received().size(), 3U);
  // Not even after a restart.
  stop();
  start(sinks_);
  store_.wait_reads(1);
  const std::string other = event(Change::kOpened, Severity::kCritical, "S//1/1");
  store_.wait(other + "/firing", "hook", [](const auto& last) { return last.tries == 1; });
  EXPECT_THAT(keys(server.received()).at(3), other + "/firing");
}

TEST_F(DeliveryTest, NoticesOfASinkThatIsNoLongerConfiguredStayVisible) {
  sinks_ = {sink("gone", "http://127.0.0.1:1/")};
  const std::string id = event(Change::kOpened);
  start({});
  const auto update = store_.wait(id + "/firing", "gone", [](const auto& last) { return last.tries == 1; });
  EXPECT_EQ(update.last_error, "no sink named 'gone' is configured");
  EXPECT_GT(update.next_try_ms, clock_.wall_ms());
}

TEST_F(DeliveryTest, NoticesBeyondTheQueueWaitInTheStore) {
  options_.queue_per_sink = 4;
  options_.defer = milliseconds(50);
  options_.poll = milliseconds(20);
  std::atomic<bool> up{false};
  HttpServer server([&](const Received&, std::size_t) { return answer(up ? 200 : 500); });
  start({sink("hook", server.url())});
  for (int i = 0; i < 20; ++i) event(Change::kOpened, Severity::kCritical, "R//1/" + std::to_string(i));
  store_.wait("uid1/R//1/19/firing", "hook", [](const auto& last) { return last.last_error.starts_with("waits: 4"); });
  EXPECT_EQ(delivery_->stats().at(0).pending, 4U);
  up = true;
  for (int i = 0; i < 20; ++i) store_.wait_delivered("uid1/R//1/" + std::to_string(i) + "/firing", "hook");
}

TEST_F(DeliveryTest, WhatWaitsInTheStoreLeavesWhenThereIsRoomAndInItsOrder) {
  options_.queue_per_sink = 4;  // and what is beyond it is due in five minutes
  constexpr int kAlerts = 40;
  std::atomic<bool> up{false};
  HttpServer server([&](const Received&, std::size_t) { return answer(up ? 200 : 500); });
  start({sink("hook", server.url())});
  const auto name = [](int i) { return "R//1/" + std::to_string(i); };
  for (int i = 0; i < kAlerts; ++i) event(Change::kOpened, Severity::kCritical, name(i));
  store_.wait("uid1/" + name(kAlerts - 1) + "/firing", "hook",
              [](const auto& last) { return last.last_error.starts_with("waits: 4"); });
  up = true;
  for (int i = kAlerts - 1; i >= 0; --i) event(Change::kResolved, Severity::kCritical, name(i));
  for (int i = 0; i < kAlerts && !HasFailure(); ++i) store_.wait_delivered("uid1/" + name(i) + "/resolved", "hook");
  const std::vector<std::string> told = keys(server.received());
  for (int i = 0; i < kAlerts; ++i) {
    const auto firing = std::find(told.begin(), told.end(), "uid1/" + name(i) + "/firing");
    const auto resolved = std::find(told.begin(), told.end(), "uid1/" + name(i) + "/resolved");
    EXPECT_LT(firing - told.begin(), resolved - told.begin()) << name(i);
    EXPECT_NE(resolved, told.end());
  }
}

TEST_F(DeliveryTest, ResponsesAreReadUpToABoundAndRedirectsNotFollowed) {
  HttpServer target([](const Received&, std::size_t) { return answer(200); });
  HttpServer redirecting([&](const Received&, std::size_t) { return answer(307, "", "Location: " + target.url() + "\r\n"); });
  HttpServer chatty([](const Received&, std::size_t) { return answer(200, std::string(10 << 20, 'x')); });
  start({sink("redirecting", redirecting.url()), sink("chatty", chatty.url())});
  const std::string id = event(Change::kOpened);
  store_.wait_delivered(id + "/firing", "chatty");
  const auto update = store_.wait(id + "/firing", "redirecting", [](const auto& last) { return last.tries >= 1; });
  EXPECT_THAT(update.last_error, HasSubstr("redirects are not followed"));
  EXPECT_TRUE(target.received().empty());
}

TEST_F(DeliveryTest, AlertmanagerIsRemindedOfWhatIsOpenOnly) {
  HttpServer server([](const Received&, std::size_t) { return answer(200); });
  SinkConfig config = sink("am", server.url(), "alertmanager");
  config.reminder_ms = 30;  // under what validate() allows, so that the test is short
  options_.poll = milliseconds(10);
  start({config});
  const std::string open = event(Change::kOpened, Severity::kWarning, "open");
  const std::string over = event(Change::kOpened, Severity::kWarning, "over");
  store_.wait_delivered(open + "/firing", "am");
  store_.wait_delivered(over + "/firing", "am");
  event(Change::kResolved, Severity::kWarning, "over");
  store_.wait_delivered(over + "/resolved", "am");
  const std::size_t so_far = server.received().size();
  const auto requests = server.wait_for(so_far + 3);
  // After its resolve arrived, nothing revives it.
  for (std::size_t i = so_far; i < requests.size(); ++i) {
    const json body = json::parse(requests[i].body);
    ASSERT_EQ(body.size(), 1U);
    EXPECT_EQ(body[0]["labels"]["subject"], "open");
  }
}

TEST_F(DeliveryTest, StatsCountTriesAndNotices) {
  HttpServer server([](const Received&, std::size_t index) { return answer(index == 0 ? 500 : 200); });
  start({sink("hook", server.url())});
  const std::string id = event(Change::kOpened);
  store_.wait_delivered(id + "/firing", "hook");
  stop();
  start(sinks_);
  EXPECT_EQ(delivery_->stats().at(0).delivered, 0U);
  const std::string other = event(Change::kResolved);
  store_.wait_delivered(other + "/resolved", "hook");
  delivery_->stop();
  const SinkStats stats = delivery_->stats().at(0);
  EXPECT_EQ(stats.name, "hook");
  EXPECT_EQ(stats.type, "webhook");
  EXPECT_EQ(stats.delivered, 1U);
  EXPECT_EQ(stats.requests, 1U);
  EXPECT_EQ(stats.failed, 0U);
  EXPECT_EQ(stats.pending, 0U);
  EXPECT_GT(stats.seconds, 0);
}

TEST_F(DeliveryTest, StopIsBoundedWhileARequestHangs) {
  HttpServer server([](const Received&, std::size_t) { return doing(Reply::How::kHang); });
  start({sink("hook", server.url())});
  event(Change::kOpened);
  server.wait_for(1);
  const auto begin = std::chrono::steady_clock::now();
  delivery_->stop();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, milliseconds(sinks_[0].timeout_ms));
}

}  // namespace
}  // namespace scalewatch::alerting
