#include "server/alerting/sink_queue.h"

#include <gtest/gtest.h>

namespace scalewatch::alerting {
namespace {

SinkQueue::Item item(const std::string& key) {
  SinkQueue::Item out;
  out.row.key = key;
  return out;
}

TEST(SinkQueue, ALaterNoticeWaitsForTheEarlierOneOfItsOrder) {
  SinkQueue queue;
  queue.push("a", item("a/firing"), 0);
  queue.push("a", item("a/resolved"), 0);
  queue.push("b", item("b/firing"), 0);
  EXPECT_EQ(queue.take(0), "a");
  EXPECT_EQ(queue.take(0), "b");
  EXPECT_EQ(queue.take(0), std::nullopt);  // a is in flight: its resolve waits
  EXPECT_TRUE(queue.followed("a"));
  queue.retry("a", 1, 50);
  EXPECT_EQ(queue.take(49), std::nullopt);
  EXPECT_EQ(queue.next_due_ms(0), 50);
  EXPECT_EQ(queue.take(50), "a");
  EXPECT_EQ(queue.head("a").row.key, "a/firing");
  EXPECT_EQ(queue.head("a").tries, 1U);
  queue.finish("a", 60);
  EXPECT_EQ(queue.take(60), "a");
  EXPECT_EQ(queue.head("a").row.key, "a/resolved");
  EXPECT_FALSE(queue.followed("a"));
  queue.finish("a", 70);
  EXPECT_FALSE(queue.has("a"));
  EXPECT_EQ(queue.size(), 1U);
}

TEST(SinkQueue, HeldOrdersWaitForEveryRelease) {
  SinkQueue queue;
  queue.hold("a");
  queue.hold("a");
  queue.push("a", item("a/resolved"), 0);
  queue.push("b", item("b/firing"), 5);
  EXPECT_EQ(queue.take(10), "b");
  queue.release("a");
  EXPECT_EQ(queue.take(10), std::nullopt);
  queue.release("a");
  EXPECT_EQ(queue.take(10), "a");
}

}  // namespace
}  // namespace scalewatch::alerting
