#include "server/app/units.h"

#include <gtest/gtest.h>

namespace scalewatch::app {
namespace {

// An empty host for what is no address.
Address address(const char* text) {
  return parse_address(text).value_or(Address{});
}

TEST(Units, Durations) {
  EXPECT_EQ(parse_duration("0ms"), 0);
  EXPECT_EQ(parse_duration("50ms"), 50);
  EXPECT_EQ(parse_duration("2s"), 2000);
  EXPECT_EQ(parse_duration("10min"), 600'000);
  EXPECT_EQ(parse_duration("1h"), 3'600'000);
  EXPECT_EQ(parse_duration("7d"), 604'800'000);
  for (const char* bad :
       {"", "5", "ms", "-1s", "1.5s", "5 s", "5S", "5sec", "9223372036854775807d", "99999999999999999999ms"}) {
    EXPECT_FALSE(parse_duration(bad)) << bad;
  }
  for (const std::int64_t value : {0, 1, 999, 1000, 1001, 60'000, 90'000, 86'400'000}) {
    EXPECT_EQ(parse_duration(format_duration(value)), value);
  }
  EXPECT_EQ(format_duration(90'000), "90s");
}

TEST(Units, Sizes) {
  EXPECT_EQ(parse_size("512B"), 512u);
  EXPECT_EQ(parse_size("8MiB"), 8u << 20);
  EXPECT_EQ(format_size(1u << 30), "1GiB");
  EXPECT_EQ(format_size(1536), "1536B");
  for (const char* bad : {"8", "8MB", "8 MiB", "8mib", "-1B", "9223372036854775807GiB"}) EXPECT_FALSE(parse_size(bad)) << bad;
}

TEST(Units, Addresses) {
  EXPECT_EQ(address("127.0.0.1:7462").port, 7462);
  EXPECT_EQ(address("localhost:0").host, "127.0.0.1");
  EXPECT_EQ(address("[::1]:80").text(), "[::1]:80");
  for (const char* bad : {"", ":1", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:x", "::1:80",
                          "example.org:80", "[127.0.0.1]:80", "256.0.0.1:1"}) {
    EXPECT_FALSE(parse_address(bad)) << bad;
  }
}

TEST(Units, Loopback) {
  EXPECT_TRUE(address("127.0.0.1:1").loopback());
  EXPECT_TRUE(address("127.9.9.9:1").loopback());
  EXPECT_TRUE(address("[::1]:1").loopback());
  EXPECT_FALSE(address("0.0.0.0:1").loopback());
  EXPECT_FALSE(address("[::]:1").loopback());
  EXPECT_FALSE(address("10.0.0.1:1").loopback());
}

}  // namespace
}  // namespace scalewatch::app
