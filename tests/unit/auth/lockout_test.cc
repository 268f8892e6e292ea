#include "server/auth/lockout.h"

#include <gtest/gtest.h>

#include "server/auth/bucket.h"
#include "server/auth/peer.h"

namespace scalewatch::auth {
namespace {

TEST(Lockout, WaitsDoubleAfterSomeFreeTries) {
  Lockout lockout;
  for (unsigned i = 0; i + 1 < Lockout::kFree; ++i) lockout.failed("a", 1000);
  EXPECT_EQ(lockout.wait_ms("a", 1000), 0);
  lockout.failed("a", 1000);
  EXPECT_EQ(lockout.wait_ms("a", 1000), 1000);
  EXPECT_EQ(lockout.wait_ms("a", 1700), 300);
  EXPECT_EQ(lockout.wait_ms("a", 2000), 0);
  lockout.failed("a", 2000);
  EXPECT_EQ(lockout.wait_ms("a", 2000), 2000);
  for (int i = 0; i < 100; ++i) lockout.failed("a", 4000);
  EXPECT_EQ(lockout.wait_ms("a", 4000), Lockout::kLongestMs);
  EXPECT_EQ(lockout.wait_ms("b", 4000), 0);
  lockout.succeeded("a");
  EXPECT_EQ(lockout.wait_ms("a", 4000), 0);
}

TEST(Lockout, ForgetsAfterARestAndHoldsNoMoreThanItMay) {
  Lockout lockout;
  for (unsigned i = 0; i < Lockout::kFree; ++i) lockout.failed("a", 1000);
  lockout.failed("a", 1001 + Lockout::kForgetMs);
  EXPECT_EQ(lockout.wait_ms("a", 1001 + Lockout::kForgetMs), 0);

  Lockout crowded;
  for (unsigned i = 0; i < Lockout::kFree; ++i) crowded.failed("first", 1);
  for (std::size_t key = 0; key < Lockout::kMostKeys; ++key) crowded.failed(std::to_string(key), 2);
  EXPECT_EQ(crowded.wait_ms("first", 2), 0);  // it went
}

TEST(Bucket, LetsBurstsThroughAndThenHoldsTheRate) {
  Bucket bucket;
  EXPECT_EQ(bucket.take(1e9, 1), 0);  // no limit
  bucket.limit(100, 1000);
  EXPECT_EQ(bucket.take(1000, 1000), 0);
  EXPECT_NEAR(static_cast<double>(bucket.take(100, 1000)), 1000, 2);
  EXPECT_NEAR(static_cast<double>(bucket.debt(1500)), 500, 2);
  EXPECT_EQ(bucket.debt(2100), 0);
  EXPECT_EQ(bucket.take(900, 1'000'000), 0);  // rested, and not fuller than its burst
  EXPECT_GT(bucket.take(200, 1'000'000), 0);
}

TEST(Peer, IsAnAddressWithoutItsPort) {
  EXPECT_EQ(peer_of_grpc("ipv4:10.0.0.7:5123"), "10.0.0.7");
  EXPECT_EQ(peer_of_grpc("ipv6:%5B2001:db8::7%5D:5123"), "2001:db8::7");
  EXPECT_EQ(peer_of_grpc("ipv6:[::1]:5123"), "::1");
  EXPECT_EQ(peer_of_grpc("unix:/run/x"), "unix:/run/x");
  EXPECT_EQ(network_of("10.0.0.7"), "10.0.0.7");
  EXPECT_EQ(network_of("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
  EXPECT_EQ(network_of("2001:db8::7"), "2001:db8::");
}

}  // namespace
}  // namespace scalewatch::auth
