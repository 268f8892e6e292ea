// What holds for whatever a run does: the same inputs give the same findings and states bit for bit, also when the fold is cut
// by a restart anywhere. A rule that keeps anything out of its `persist` fails here, by name.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <set>

#include "server/domain/policy.h"
#include "server/domain/rules/rule.h"
#include "tests/unit/domain/random_run.h"

namespace scalewatch::domain {
namespace {

// Folds into `a` as it is and into `b`, which is reloaded before each input that `cut` says; true while they agree.
template <class Cut>
bool folds_agree(const std::vector<RunInput>& inputs, std::uint64_t seed, Cut cut) {
  FoldedRun whole;
  FoldedRun parts;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool now = cut();
    if (now) parts.reload();
    const auto expected = whole.take(inputs[i]);
    const auto actual = parts.take(inputs[i]);
    if (bytes_of(expected) != bytes_of(actual)) {
      ADD_FAILURE() << "seed " << seed << ", input " << i
                    << ": uncut and cut folds tell different things: " << difference_of_events(expected, actual);
      return false;
    }
    if (!now && i + 1 < inputs.size()) continue;
    if (whole.run_bytes() != parts.run_bytes()) {
      ADD_FAILURE() << "seed " << seed << ", input " << i << ": after a reload differs the "
                    << difference_of_states(whole.run_bytes(), parts.run_bytes());
      return false;
    }
    if (whole.rank_bytes() != parts.rank_bytes()) {
      ADD_FAILURE() << "seed " << seed << ", input " << i << ": after a reload RankState differs";
      return false;
    }
  }
  return true;
}

// Parts that a test runner may run side by side.
class Property : public testing::TestWithParam<std::uint64_t> {};

TEST_P(Property, CutAtRandomPlacesNothingChanges) {
  for (std::uint64_t seed = GetParam(); seed < GetParam() + 10; ++seed) {
    std::mt19937_64 random(seed * 977);
    if (!folds_agree(random_run(seed, 300), seed, [&] { return random() % 25 == 0; })) return;
  }
}

// What only a rare cut would show: state that matters for a few inputs and no longer.
TEST_P(Property, CutBeforeEveryInputNothingChanges) {
  for (std::uint64_t seed = GetParam() + 1000; seed < GetParam() + 1004; ++seed) {
    if (!folds_agree(random_run(seed, 80), seed, [] { return true; })) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Property, testing::Values(1, 11, 21, 31));

// The order of pointers, or memory that nobody set, would show when the heap lies differently.
TEST(PropertyRepeat, TheSameInputsGiveTheSameBytesWhereverMemoryLies) {
  std::vector<std::unique_ptr<std::string>> litter;
  std::mt19937_64 random(5);
  for (std::uint64_t seed = 101; seed < 111; ++seed) {
    const std::vector<RunInput> inputs = random_run(seed, 150);
    FoldedRun first;
    FoldedRun second;
    for (const RunInput& input : inputs) {
      const auto expected = first.take(input);
      for (int i = 0; i < 4; ++i) litter.push_back(std::make_unique<std::string>(random() % 700, static_cast<char>(i * 85)));
      if (random() % 10 == 0) {
        std::shuffle(litter.begin(), litter.end(), random);
        litter.resize(litter.size() / 2);
      }
      const auto actual = second.take(input);
      ASSERT_EQ(bytes_of(expected), bytes_of(actual)) << "seed " << seed << ": " << difference_of_events(expected, actual);
    }
    ASSERT_EQ(first.run_bytes(), second.run_bytes()) << difference_of_states(first.run_bytes(), second.run_bytes());
  }
}

// The net has no holes: every policy takes part, and every rule fires.
TEST(PropertyRepeat, TheRandomRunsReachEveryPolicyAndEveryRule) {
  std::set<std::string> policies;
  std::map<std::string, int> rules;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    FoldedRun run;
    for (const RunInput& input : random_run(seed, 300)) {
      if (const auto* plain = std::get_if<Input>(&input)) {
        if (const auto* joined = std::get_if<RankJoined>(plain)) {
          for (const ScalerInfo& scaler : joined->scalers) policies.insert(scaler.policy);
        }
      }
      for (const FindingEvent& event : run.take(input)) ++rules[event.finding.rule];
    }
  }
  for (const std::string_view policy : policy_names()) EXPECT_TRUE(policies.contains(std::string(policy))) << policy;
  std::string fired;
  for (const auto& [rule, events] : rules) fired += rule + " " + std::to_string(events) + ", ";
  // Rules that no random run has reached are not guarded by the tests above.
  for (const auto& rule : make_rules())
    EXPECT_TRUE(rules.contains(std::string(rule->name()))) << rule->name() << "; fired: " << fired;
}

}  // namespace
}  // namespace scalewatch::domain
