#include "server/fleet/instances.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <stdexcept>

namespace scalewatch::fleet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string fault(const std::string& list, const std::string& self = "a") {
  try {
    parse_instances(list, self);
    return {};
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

TEST(Instances, AreNamesWithAddresses) {
  EXPECT_THAT(parse_instances("a=10.0.0.1:7462, b = node-2:7462,c=[::1]:1", "b"),
              ElementsAre(Instance{"a", "10.0.0.1:7462"}, Instance{"b", "node-2:7462"}, Instance{"c", "[::1]:1"}));
}

TEST(Instances, FaultsAreNamed) {
  EXPECT_THAT(fault(""), HasSubstr("NAME=HOST:PORT"));
  EXPECT_THAT(fault("a=h:1,"), HasSubstr("\"\" is no"));
  EXPECT_THAT(fault("a=h"), HasSubstr("\"a=h\""));
  EXPECT_THAT(fault("a=h:0"), HasSubstr("a=h:0"));
  EXPECT_THAT(fault("a=h:1,a=h:2"), HasSubstr("\"a\" is there twice"));
  EXPECT_THAT(fault("a=h:1,b=h:1"), HasSubstr("h:1 is there twice"));
  EXPECT_THAT(fault("a=h:1,b=h:2", "x"), HasSubstr("none of them"));
}

std::vector<Instance> five() {
  return parse_instances("a=h:1,b=h:2,c=h:3,d=h:4,e=h:5", "a");
}

// Servers of different versions must agree.
TEST(Rendezvous, WeightsNeverChange) {
  EXPECT_EQ(weight_of("llama-7b", "a"), 15551134412049673606U);
  EXPECT_EQ(weight_of("", ""), 10924423055518464979U);
}

TEST(Rendezvous, SpreadsRunsEvenly) {
  std::map<std::size_t, int> runs;
  for (int i = 0; i < 10'000; ++i) ++runs[ranking("run-" + std::to_string(i), five()).front()];
  for (const auto& [instance, count] : runs) EXPECT_NEAR(count, 2000, 200) << instance;
  EXPECT_EQ(runs.size(), 5U);
}

TEST(Rendezvous, AServerThatGoesMovesOnlyItsOwnRuns) {
  const auto all = five();
  auto less = all;
  less.erase(less.begin() + 2);
  std::map<std::string, int> moved_to;
  for (int i = 0; i < 5'000; ++i) {
    const std::string run = "run-" + std::to_string(i);
    const auto before = ranking(run, all);
    const std::string after = less[ranking(run, less).front()].name;
    if (before.front() != 2) {
      EXPECT_EQ(after, all[before.front()].name);
    } else {
      EXPECT_EQ(after, all[before[1]].name);
      ++moved_to[after];
    }
  }
  EXPECT_EQ(moved_to.size(), 4U);  // its runs go to all others
}

}  // namespace
}  // namespace scalewatch::fleet
