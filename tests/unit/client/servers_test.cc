#include "client_lib/src/servers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace scalewatch::client {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Servers, AreAListOfAddresses) {
  EXPECT_THAT(split_servers("a:1"), ElementsAre("a:1"));
  EXPECT_THAT(split_servers("a:1, [::1]:2 ,dns:///fleet.example.org:7462"),
              ElementsAre("a:1", "[::1]:2", "dns:///fleet.example.org:7462"));
  for (const char* wrong : {"", "a", "a:1,", ",a:1", "a:1,b", "http://a:1", "dns:///", "dns://a:1"}) {
    EXPECT_THAT(split_servers(wrong), IsEmpty()) << wrong;
  }
  std::string many = "a:1";
  for (int i = 0; i < 64; ++i) many += ",a:1";
  EXPECT_THAT(split_servers(many), IsEmpty());
}

TEST(Servers, AreGoneThroughInTurn) {
  Servers servers({"a:1", "b:1", "c:1"}, 4);
  EXPECT_EQ(servers.current(), "b:1");
  servers.failed();
  EXPECT_EQ(servers.current(), "c:1");
  servers.failed();
  EXPECT_EQ(servers.current(), "a:1");
}

TEST(Servers, TheOwnerIsAskedUntilItFails) {
  Servers servers({"a:1", "b:1"}, 0);
  EXPECT_TRUE(servers.moved("owner:1"));
  EXPECT_EQ(servers.current(), "owner:1");
  servers.greeted();
  EXPECT_EQ(servers.current(), "owner:1");
  servers.failed();
  EXPECT_EQ(servers.current(), "a:1");  // which knows who has the run now
}

TEST(Servers, AreNotAskedInCircles) {
  Servers servers({"a:1"}, 0);
  for (unsigned i = 0; i < Servers::kMostMoves; ++i) EXPECT_TRUE(servers.moved(i % 2 == 0 ? "b:1" : "a:1"));
  EXPECT_FALSE(servers.moved("b:1"));
  servers.failed();  // after a pause it may be otherwise
  EXPECT_TRUE(servers.moved("b:1"));
  EXPECT_FALSE(servers.moved("no address"));
  EXPECT_FALSE(servers.moved(""));
}

}  // namespace
}  // namespace scalewatch::client
