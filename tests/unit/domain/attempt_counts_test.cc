// What metrics count of attempts is what the run's state judged of them.
#include "server/domain/attempt_counts.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <numeric>
#include <string>

#include "tests/unit/domain/driver.h"

namespace scalewatch::domain {
namespace {

std::uint64_t skips(const Driver& run, SkipReason reason) {
  return run.state.view().counts.skips.at(static_cast<std::size_t>(reason));
}
std::uint64_t of(const std::array<std::uint64_t, kRoles>& counts, Role role) {
  return counts.at(static_cast<std::size_t>(role));
}

TEST(AttemptCounts, AnAttemptCountsOnceWhateverTheNumberOfRanks) {
  Driver run({.ranks = 4});
  run.attempts(3, false);
  run.attempt(true, [](AttemptDigest& digest) { add_bad(digest, kGrad1, 5); });
  const AttemptCounts counts = run.state.view().counts;
  EXPECT_EQ(skips(run, SkipReason::kGradient), 1U);
  EXPECT_EQ(of(counts.non_finite_attempts, Role::kGradient), 1U);
  EXPECT_EQ(of(counts.non_finite_elements, Role::kGradient), 20U);
  EXPECT_EQ(counts.non_finite_applied, 0U);
}

TEST(AttemptCounts, ASkipsReasonIsItsBlame) {
  Driver run({.ranks = 2});
  run.attempts(3, false);
  // Of another rank, and earlier in the flow.
  run.attempt(true, [](AttemptDigest& digest) {
    add_bad(digest, kGrad1, 1);
    if (digest.rank == 1) digest.loss = NAN;
  });
  run.attempt(true, [](AttemptDigest& digest) {
    add_bad(digest, kGrad1, 1);
    if (digest.rank == 1) add_bad(digest, kAct0, 1);
  });
  run.attempt(true, [](AttemptDigest& digest) {
    digest.input_non_finite = digest.rank == 0;
    add_bad(digest, kAct0, 1);
  });
  run.attempt(true, [](AttemptDigest& digest) { add_bad(digest, kState1, 1); });  // a skipped step wrote none of it
  run.attempt(true);                                                              // found_inf alone tells
  EXPECT_EQ(skips(run, SkipReason::kLoss), 1U);
  EXPECT_EQ(skips(run, SkipReason::kActivation), 1U);
  EXPECT_EQ(skips(run, SkipReason::kInput), 1U);
  EXPECT_EQ(skips(run, SkipReason::kParameter), 1U);
  EXPECT_EQ(skips(run, SkipReason::kUnknown), 1U);
  const RunView view = run.state.view();
  EXPECT_EQ(view.counts.non_finite_losses, 1U);
  EXPECT_EQ(std::accumulate(view.counts.skips.begin(), view.counts.skips.end(), std::uint64_t{0}), view.skipped);
}

TEST(AttemptCounts, AppliedWithNonFiniteGradientsIsCountedAndAMaskIsNot) {
  Driver run({.scaler = false});
  run.attempts(3, false);
  run.attempt(false, [](AttemptDigest& digest) { add_bad(digest, kGrad1, 1); });
  run.attempt(false, [](AttemptDigest& digest) { add_bad(digest, kAct1, 0, 0, 100); });
  const AttemptCounts counts = run.state.view().counts;
  EXPECT_EQ(counts.non_finite_applied, 1U);
  EXPECT_EQ(of(counts.non_finite_elements, Role::kActivation), 0U);
  EXPECT_EQ(of(counts.non_finite_attempts, Role::kActivation), 0U);
}

// The rank with the full statistics knows that the activation holds none; the one that came to hold it tells no more than that.
TEST(AttemptCounts, WhatIsNoMaskOnAnotherRankIsNone) {
  Driver run({.ranks = 2});
  const auto unmasked = run.options.thresholds.mask_samples;
  for (std::uint32_t i = 1; i <= unmasked; ++i) {
    run.attempt(false, [&](AttemptDigest& digest) {
      if (digest.rank == 0 && i == unmasked) digest.unmasked = {kAct1};
    });
  }
  run.attempt(false, [](AttemptDigest& digest) {
    if (digest.rank == 1) add_bad(digest, kAct1, 0, 0, 100);
  });
  EXPECT_EQ(of(run.state.view().counts.non_finite_elements, Role::kActivation), 100U);
}

TEST(AttemptCounts, SurviveARestartAndBeginWithTheSegment) {
  Driver run;
  run.attempts(3, true, [](AttemptDigest& digest) {
    add_bad(digest, kGrad1, 1);
    digest.scalers.front().hysteresis = 2;
  });
  run.attempt(false);  // says nothing of its hysteresis
  const RunView before = run.state.view();
  RunState again;
  again.load(run.state.save());
  EXPECT_EQ(again.view().counts, before.counts);
  EXPECT_EQ(again.view().counts.skips.at(static_cast<std::size_t>(SkipReason::kGradient)), 3U);
  EXPECT_EQ(again.view().scalers.front().hysteresis, 2);
  run.send(SegmentOpened{2, run.now});
  EXPECT_EQ(run.state.view().counts, AttemptCounts());
}

// As a server of before the counts left it: 40 applied attempts of two ranks, 3 skipped, 10 applied, one with a loss of NaN.
TEST(AttemptCounts, AStateOfBeforeThemIsReadAndTheyBeginThen) {
  std::ifstream file(SCALEWATCH_TEST_DATA "/state/run-7.bin", std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  ASSERT_GT(bytes.size(), 10'000U);
  Driver run({.ranks = 2});
  run.state.load(bytes);
  const RunView view = run.state.view();
  EXPECT_EQ(view.attempts, 54U);
  EXPECT_EQ(view.skipped, 3U);
  EXPECT_EQ(view.open.size(), 3U);
  EXPECT_EQ(view.counts, AttemptCounts());
  run.next = 55;
  run.attempt(true, [](AttemptDigest& digest) { add_bad(digest, kGrad1, 4); });
  EXPECT_EQ(run.state.view().skipped, 4U);
  EXPECT_EQ(skips(run, SkipReason::kGradient), 1U);
  EXPECT_EQ(run.state.save().substr(4, 4), std::string("\x09\0\0\0", 4));
}

}  // namespace
}  // namespace scalewatch::domain
