// Which attempts a tensor is measured at, and sent, by the trainer's rules and the server's directives.
#include "client_lib/src/sampling.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace scalewatch::client {
namespace {

TensorInfo tensor(const std::string& name, Role role = Role::kGradient) {
  TensorInfo info;
  info.name = name;
  info.role = role;
  return info;
}

Directive directive(const std::string& id, std::vector<std::string> tensors, std::uint32_t every, std::uint32_t report_every) {
  Directive made;
  made.id = id;
  made.tensors = std::move(tensors);
  made.every = every;
  made.report_every = report_every;
  return made;
}

// The attempts up to 20 that are measured ("m") or sent ("s").
std::string schedule(const Cadence& cadence) {
  std::string line;
  for (std::uint64_t attempt = 1; attempt <= 20; ++attempt) {
    const Due now = due(cadence, attempt);
    line += !now.measure ? '.' : now.send == SendMode::kIfBad ? 'm' : now.send == SendMode::kIfFoundInf ? 'f' : 's';
  }
  return line;
}

TEST(Sampling, CadenceCountsFromItsFirstAttempt) {
  EXPECT_EQ(schedule({}), "ssssssssssssssssssss");
  EXPECT_EQ(schedule({5, 1, 1, 0, false}), "s....s....s....s....");
  EXPECT_EQ(schedule({5, 2, 1, 0, false}), "s....m....s....m....");
  EXPECT_EQ(schedule({2, 1, 4, 9, false}), "...s.s.s............");
  EXPECT_EQ(schedule({1, kNever, 1, 0, false}), "mmmmmmmmmmmmmmmmmmmm");
  EXPECT_EQ(schedule({4, 1, 1, 0, true}), "f...f...f...f...f...");
  EXPECT_EQ(schedule({0, 1, 1, 0, false}), "....................");
}

TEST(Sampling, StarsMatchAnyCharacters) {
  EXPECT_TRUE(matches("layers.*.weight", "layers.3.attn.weight"));
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("a*b*c", "abbbc"));
  EXPECT_TRUE(matches("**x", "x"));
  EXPECT_TRUE(matches("w[0]?", "w[0]?"));
  EXPECT_FALSE(matches("w[0]?", "w00"));
  EXPECT_FALSE(matches("layers.*.weight", "layers.3.attn.bias"));
  EXPECT_FALSE(matches("abc", "abcd"));
  EXPECT_FALSE(matches("a*b", "a"));
  EXPECT_FALSE(matches("", "a"));
}

TEST(Sampling, TheLastRuleThatMatchesHolds) {
  Sampling sampling;
  sampling.add({0, "", "", {10, 1, 1, 0, false}});
  sampling.add({static_cast<std::int32_t>(Role::kGradient), "head.*", "*.bias", {1, 1, 1, 0, false}});
  const auto every = [&](const TensorInfo& info) { return sampling.cadences()[sampling.cadence_of(info)].every; };
  EXPECT_EQ(every(tensor("head.weight")), 1U);
  EXPECT_EQ(every(tensor("head.bias")), 10U);
  EXPECT_EQ(every(tensor("head.weight", Role::kParameter)), 10U);
  EXPECT_EQ(every(tensor("body.weight")), 10U);
  EXPECT_EQ(Sampling().cadence_of(tensor("w")), 0U);
}

class DirectivesTest : public testing::Test {
 protected:
  // What holds for a tensor by now: nothing when its own sampling does.
  std::string holds(std::size_t id) {
    const auto overrides = directives.build(table, own);
    if (id >= overrides->of.size() || overrides->of[id] == 0) return "own";
    return schedule(overrides->cadences[overrides->of[id] - 1U]);
  }

  std::vector<TensorInfo> table = {tensor("a"), tensor("b"), tensor("a", Role::kParameter), tensor("off")};
  Sampling own;
  Directives directives;
};

TEST_F(DirectivesTest, TheMostThatAnyAsksForIsDone) {
  own.add({0, "", "", {5, 1, 1, 0, false}});
  own.add({0, "off", "", {0, 1, 1, 0, false}});
  directives.replace({directive("follower", {}, 0, kNever)}, 0);
  EXPECT_EQ(holds(0), "m....m....m....m....");
  Directive microscope = directive("microscope", {"a"}, 1, 0);
  microscope.roles = {static_cast<std::int32_t>(Role::kGradient)};
  microscope.until_attempt = 50;
  directives.put(microscope);
  EXPECT_TRUE(directives.changed());
  EXPECT_EQ(holds(0), "ssssssssssssssssssss");
  EXPECT_EQ(holds(1), "m....m....m....m....");
  EXPECT_EQ(holds(2), "m....m....m....m....");
  EXPECT_EQ(holds(3), "own");  // what the trainer excluded stays excluded
  directives.expire(0, 50);
  EXPECT_FALSE(directives.changed());
  directives.expire(0, 51);
  EXPECT_TRUE(directives.changed());
  EXPECT_EQ(holds(0), "m....m....m....m....");
  directives.replace({}, 0);
  EXPECT_EQ(holds(0), "own");
}

TEST_F(DirectivesTest, WhatLeavesMeasuringToTheTrainerKeepsTheRestOfItsRule) {
  own.add({0, "", "", {2, 1, 5, 14, true}});
  directives.replace({directive("state", {}, 0, 2)}, 0);
  EXPECT_EQ(holds(0), "....f.m.f.m.f.......");
  directives.put(directive("microscope", {}, 1, 0));
  EXPECT_EQ(holds(0), "ssssssssssssssssssss");
}

TEST_F(DirectivesTest, ExpireByTheServersClock) {
  Directive brief = directive("brief", {}, 0, kNever);
  brief.expires_ms = 1'000'500;
  directives.replace({brief}, 1'000'000);  // the server's clock is ahead
  directives.expire(499, 1);
  EXPECT_TRUE(directives.any());
  directives.expire(500, 1);
  EXPECT_FALSE(directives.any());
  directives.put(directive("brief", {}, 0, 2));
  Directive ended = directive("brief", {}, 0, 2);
  ended.expires_ms = 1;
  directives.put(ended);
  directives.expire(0, 1);
  EXPECT_FALSE(directives.any());
}

TEST_F(DirectivesTest, RingIsSentOnceAnId) {
  Directive ring = directive("f1", {"a"}, 1, 0);
  ring.send_ring = true;
  directives.replace({ring}, 0);
  EXPECT_TRUE(directives.take_ring_request());
  EXPECT_FALSE(directives.take_ring_request());
  directives.replace({ring}, 0);  // told again on the next stream
  EXPECT_FALSE(directives.take_ring_request());
  ring.id = "f2";
  directives.put(ring);
  EXPECT_TRUE(directives.take_ring_request());
}

TEST_F(DirectivesTest, AreBounded) {
  for (std::size_t i = 0; i < 3 * Directives::kMax; ++i) directives.put(directive(std::to_string(i), {"a"}, 1, 0));
  EXPECT_EQ(holds(0), "ssssssssssssssssssss");
  EXPECT_EQ(directives.build(table, own)->cadences.size(), 1U);
}

}  // namespace
}  // namespace scalewatch::client
