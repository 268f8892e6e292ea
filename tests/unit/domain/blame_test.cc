// Where it began, with decoys: tensors that are non-finite only because of it.
#include "server/domain/blame.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/domain/driver.h"

namespace scalewatch::domain {
namespace {

constexpr double kNan = NAN;

struct BadTensor {
  std::uint32_t id = 0;
  std::uint64_t nan = 0;
  std::uint64_t pos_inf = 0;
  std::uint64_t neg_inf = 0;
};

struct Case {
  const char* name = "";
  std::vector<BadTensor> bad{};
  double loss = 1;
  bool skipped = true;
  bool activations = true;
  bool input = false;
  // expected
  const char* tensor = "";
  Role role = Role::kUnspecified;
  const char* where = "";
  const char* kind = "";
};

class BlameTable : public testing::TestWithParam<Case> {};

TEST_P(BlameTable, BlamesTheFirst) {
  const Case& c = GetParam();
  Driver driver;
  driver.attempts(5, false, [](AttemptDigest& digest) {
    digest.observed_parameters = digest.observed_activations = digest.observed_gradients = true;
  });
  driver.attempt(c.skipped, [&](AttemptDigest& digest) {
    digest.observed_parameters = digest.observed_gradients = true;
    digest.observed_activations = c.activations;
    digest.loss = c.loss;
    if (c.input) digest.input_non_finite = true;
    for (const BadTensor& bad : c.bad) add_bad(digest, bad.id, bad.nan, bad.pos_inf, bad.neg_inf);
  });
  const Blame* blame = nullptr;
  for (const FindingEvent& event : driver.events) {
    if (event.finding.blame) blame = &*event.finding.blame;
  }
  ASSERT_NE(blame, nullptr);
  EXPECT_EQ(blame->tensor, c.tensor);
  EXPECT_EQ(blame->role, c.role);
  EXPECT_EQ(blame->where, c.where);
  EXPECT_EQ(blame->kind, c.kind);
}

const Case kCases[] = {
    {.name = "LastGradientIsFirstInBackward",
     .bad = {{kGrad0, 1}, {kGrad1, 1}, {kGrad2, 0, 1}},
     .tensor = "layers.2.weight",
     .role = Role::kGradient,
     .where = "backward",
     .kind = "inf"},
    {.name = "ActivationGradientBeforeItsWeights",
     .bad = {{kGrad1, 1}, {kActGrad1, 1, 1}, {kActGrad0, 1}},
     .tensor = "layers.1",
     .role = Role::kActivationGradient,
     .where = "backward",
     .kind = "both"},
    {.name = "FirstActivationBeforeLaterOnesLossAndGradients",
     .bad = {{kAct1, 0, 2}, {kAct2, 5}, {kGrad2, 9}, {kGrad0, 9}},
     .loss = kNan,
     .tensor = "layers.1",
     .role = Role::kActivation,
     .where = "forward",
     .kind = "inf"},
    {.name = "LossWithFiniteActivations",
     .bad = {{kGrad2, 9}, {kActGrad2, 9}},
     .loss = kNan,
     .tensor = "",
     .role = Role::kUnspecified,
     .where = "loss",
     .kind = "nan"},
    {.name = "InputBeforeActivations",
     .bad = {{kAct0, 3}, {kGrad2, 9}},
     .loss = kNan,
     .input = true,
     .tensor = "",
     .role = Role::kUnspecified,
     .where = "input",
     .kind = ""},
    {.name = "WeightsThatThisStepPoisonedAreAConsequence",
     .bad = {{kWeight0, 9}, {kState0, 9}, {kGrad1, 1}},
     .skipped = false,
     .tensor = "layers.1.weight",
     .role = Role::kGradient,
     .where = "backward",
     .kind = "nan"},
    {.name = "WeightsAfterASkippedStepWereBadBefore",
     .bad = {{kWeight1, 1}, {kAct1, 1}, {kGrad2, 1}},
     .loss = kNan,
     .tensor = "layers.1.weight",
     .role = Role::kParameter,
     .where = "weights",
     .kind = "nan"},
    {.name = "BatchStatisticsAreWrittenByForward",
     .bad = {{kBuffer1, 0, 1}, {kAct2, 1}, {kGrad2, 1}},
     .loss = kNan,
     .tensor = "layers.1.running_var",
     .role = Role::kBuffer,
     .where = "forward",
     .kind = "inf"},
    {.name = "ActivationBeforeTheStatisticsItSpoiled",
     .bad = {{kBuffer1, 1}, {kAct0, 0, 1}, {kGrad2, 1}},
     .loss = kNan,
     .tensor = "layers.0",
     .role = Role::kActivation,
     .where = "forward",
     .kind = "inf"},
    {.name = "FiniteGradientsBadState",
     .bad = {{kWeight1, 2}, {kState1, 0, 2}},
     .skipped = false,
     .tensor = "layers.1.weight.exp_avg",
     .role = Role::kOptimizerState,
     .where = "optimizer",
     .kind = "inf"},
    {.name = "MaskIsNotBlamedForGradients",
     .bad = {{kAct0, 0, 0, 50}, {kGrad2, 0, 1}},
     .tensor = "layers.2.weight",
     .role = Role::kGradient,
     .where = "backward",
     .kind = "inf"},
    {.name = "MaskIsNotBlamedBeforeARealActivation",
     .bad = {{kAct0, 0, 0, 50}, {kAct1, 1}, {kGrad2, 1}},
     .loss = kNan,
     .tensor = "layers.1",
     .role = Role::kActivation,
     .where = "forward",
     .kind = "nan"},
    {.name = "MinusInfIsBlamedWhenNothingElseExplainsTheLoss",
     .bad = {{kAct1, 0, 0, 1}, {kGrad2, 1}},
     .loss = kNan,
     .tensor = "layers.1",
     .role = Role::kActivation,
     .where = "forward",
     .kind = "inf"},
    {.name = "FoundInfAlone", .bad = {}, .tensor = "", .role = Role::kUnspecified, .where = "backward", .kind = ""},
};
INSTANTIATE_TEST_SUITE_P(All, BlameTable, testing::ValuesIn(kCases), [](const auto& test) { return test.param.name; });

TEST(Blame, WeightsThatWereBadBeforeComeFirst) {
  Driver driver;
  driver.attempt(false);
  driver.attempt(false, [](AttemptDigest& digest) {
    digest.observed_parameters = true;
    add_bad(digest, kWeight2, 1);
  });
  driver.attempt(true, [](AttemptDigest& digest) {
    add_bad(digest, kWeight2, 1);
    add_bad(digest, kAct0, 1);
    add_bad(digest, kGrad2, 1);
  });
  EXPECT_EQ(driver.find("NonFiniteGradient")->blame->where, "weights");
  EXPECT_EQ(driver.find("NonFiniteGradient")->blame->tensor, "layers.2.weight");
}

TEST(Blame, StateThatNobodyLookedAtSinceABadStepWasAppliedIsTheOrigin) {
  Driver driver({.policy = "none"});
  driver.attempt(false);
  driver.attempt(false, [](AttemptDigest& digest) { add_bad(digest, kGrad1, 1); });
  driver.attempt(false, [](AttemptDigest& digest) {
    digest.observed_parameters = true;
    digest.loss = NAN;
    add_bad(digest, kWeight0, 7);
    add_bad(digest, kGrad2, 7);
  });
  EXPECT_EQ(driver.find("NonFiniteWeights")->blame->where, "weights");
}

TEST(Blame, AMaskLearntInHealthyStepsIsNeverBlamed) {
  Driver driver;
  driver.attempts(3, false, [](AttemptDigest& digest) { add_bad(digest, kAct0, 0, 0, 64); });
  EXPECT_TRUE(driver.events.empty());
  driver.attempt(true, [](AttemptDigest& digest) {
    digest.observed_activations = true;
    digest.loss = NAN;
    add_bad(digest, kAct0, 0, 0, 64);
  });
  EXPECT_EQ(driver.find("NonFiniteLoss")->blame->where, "loss");
}

TEST(Blame, OriginIsTheOneRankWhoseOwnValuesWereBad) {
  Driver driver({.ranks = 4});
  driver.attempt(false);
  driver.attempt(true, [](AttemptDigest& digest) {
    digest.observed_activations = true;
    if (digest.rank == 2) add_bad(digest, kAct1, 4);
    if (digest.rank == 2) digest.loss = NAN;
    add_bad(digest, kGrad1, 10);  // everybody holds the reduced one
  });
  const Blame& blame = *driver.find("NonFiniteGradient")->blame;
  EXPECT_EQ(blame.rank_of_origin, 2u);
  EXPECT_EQ(blame.tensor, "layers.1");
  EXPECT_EQ(blame.ranks, std::vector<Rank>{2});
}

TEST(Blame, AReducedGradientNamesNoRankAndSumsItsElements) {
  Driver driver({.ranks = 2});
  driver.attempt(false);
  driver.attempt(true, [](AttemptDigest& digest) { add_bad(digest, kGrad1, 10, 1, 1); });
  const Blame& blame = *driver.find("NonFiniteGradient")->blame;
  EXPECT_FALSE(blame.rank_of_origin.has_value());
  EXPECT_EQ(blame.ranks, (std::vector<Rank>{0, 1}));
  EXPECT_EQ(blame.nan, 20u);
  EXPECT_EQ(blame.inf, 4u);
  EXPECT_NE(blame.note.find("send activations"), std::string::npos);
}

TEST(Blame, FiniteOnEveryRankAndNotReducedIsTheReduction) {
  const auto local = [](bool one_bad) {
    return [=](AttemptDigest& digest) {
      digest.scalers[0].optimizers[0].found_inf_local = one_bad && digest.rank == 1 ? 1 : 0;
      add_bad(digest, kGrad1, 0, 1);
    };
  };
  Driver reduced({.ranks = 2});
  reduced.attempt(false);
  reduced.attempt(true, local(false));
  EXPECT_EQ(reduced.find("NonFiniteGradient")->blame->where, "reduction");
  Driver own({.ranks = 2});
  own.attempt(false);
  own.attempt(true, local(true));
  EXPECT_EQ(own.find("NonFiniteGradient")->blame->where, "backward");
}

TEST(Blame, FollowsWhatGoesWrongNowNotWhatOnceDid) {
  Driver driver({.parameters = {{"growth_interval", 20.0}}});
  driver.attempt(false);
  for (int i = 0; i < 600; ++i) {  // growth is tried and fails in one tensor
    const bool over = driver.policy->scale() > 65536;
    driver.attempt(over, [&](AttemptDigest& digest) {
      if (over) add_bad(digest, kGrad2, 0, 1);
    });
  }
  driver.attempts(6, true, [](AttemptDigest& digest) { add_bad(digest, kGrad0, 3); });
  EXPECT_EQ(driver.find("ConsecutiveSkips")->blame->tensor, "layers.0.weight");
}

TEST(Blame, CarriesTheFastestFallingTensor) {
  Driver driver({.ranks = 2});
  driver.attempt(false);
  driver.attempt(true, [](AttemptDigest& digest) {
    digest.falling = digest.rank == 0 ? FallingTensor{kGrad0, 2} : FallingTensor{kAct2, 5};
    add_bad(digest, kGrad2, 1);
  });
  EXPECT_EQ(driver.find("NonFiniteGradient")->blame->fastest_falling, "layers.2");
  EXPECT_EQ(driver.find("NonFiniteGradient")->blame->octaves_fallen, 5);
}

TEST(Blame, LateDetailRefinesItAndFeedsNoWindow) {
  Driver driver;
  driver.attempts(3, false);
  driver.attempt(true);
  EXPECT_EQ(driver.find("NonFiniteGradient")->blame->tensor, "");
  const RunView before = driver.state.view();
  AttemptDigest detail = driver.digest(0, true);
  detail.attempt = 4;
  detail.retrospective = true;
  detail.observed_gradients = detail.observed_activations = true;
  add_bad(detail, kGrad2, 0, 6);
  driver.send(detail);
  driver.send(detail);  // told twice: counted once
  EXPECT_EQ(driver.find("NonFiniteGradient")->blame->tensor, "layers.2.weight");
  EXPECT_EQ(driver.find("NonFiniteGradient")->blame->inf, 6u);
  EXPECT_EQ(driver.state.view().scalers[0].skipped, before.scalers[0].skipped);
  EXPECT_EQ(driver.state.view().attempts, before.attempts);
}

TEST(Blame, AMaskThatEveryRankHoldsDoesNotHideWhereItBegan) {
  Driver driver({.ranks = 4});
  driver.attempts(3, false, [](AttemptDigest& digest) { add_bad(digest, kAct1, 0, 0, 50); });
  driver.attempt(true, [](AttemptDigest& digest) {
    digest.observed_activations = true;
    if (digest.rank == 2) digest.loss = NAN;
    add_bad(digest, kAct1, digest.rank == 2 ? 3 : 0, 0, 50);
  });
  const Blame& blame = *driver.find("NonFiniteGradient")->blame;
  EXPECT_EQ(blame.tensor, "layers.1");
  EXPECT_EQ(blame.rank_of_origin, 2u);
  EXPECT_EQ(blame.ranks, std::vector<Rank>{2});
  EXPECT_EQ(blame.kind, "nan");
  EXPECT_EQ(blame.nan, 3u);
  EXPECT_EQ(blame.inf, 0u);
}

TEST(Blame, WhoOwnsABadShardIsNotWhereItBegan) {
  Driver driver({.ranks = 2});
  TensorTable sharded = *driver.table;
  for (TensorInfo& info : sharded) info.shard = "part";
  driver.attempt(false);
  for (const bool shards : {true, false}) {
    if (shards) driver.table = std::make_shared<const TensorTable>(sharded);
    driver.attempt(true, [](AttemptDigest& digest) {
      digest.observed_activations = digest.observed_activation_gradients = true;
      digest.scalers[0].optimizers[0].found_inf_local = digest.rank == 1 ? 1 : 0;
      if (digest.rank == 1) add_bad(digest, kGrad1, 1);
    });
    const Blame& blame = *driver.find("NonFiniteGradient")->blame;
    EXPECT_EQ(blame.tensor, "layers.1.weight");
    EXPECT_EQ(blame.rank_of_origin, shards ? std::nullopt : std::optional<Rank>(1));
    EXPECT_EQ(blame.note.find("before the reduction") != std::string::npos, shards) << blame.note;
    driver.table = Driver().table;
  }
}

TEST(Blame, AnEarlierMicroBatchsBackwardComesBeforeALaterOnesForward) {
  Driver driver;
  driver.attempt(false);
  driver.attempt(true, [](AttemptDigest& digest) {
    digest.observed_activations = true;
    digest.loss = NAN;
    add_bad(digest, kAct0, 1);
    digest.non_finite.back().first_bad_micro = 3;
    add_bad(digest, kActGrad1, 0, 1);
    digest.non_finite.back().first_bad_micro = 1;
    add_bad(digest, kGrad2, 9);
  });
  const Blame& blame = *driver.find("NonFiniteGradient")->blame;
  EXPECT_EQ(blame.where, "backward");
  EXPECT_EQ(blame.tensor, "layers.1");
  EXPECT_EQ(blame.first_bad_micro, 1u);
}

TEST(Blame, MinusInfInATensorThatNeverHeldAnyIsNoMask) {
  Driver driver;
  driver.attempt(false);
  driver.attempt(true, [](AttemptDigest& digest) {
    digest.observed_activations = true;
    digest.loss = NAN;
    add_bad(digest, kAct0, 0, 0, 1);
    digest.non_finite.back().neg_inf_is_new = true;
    add_bad(digest, kAct1, 1);
  });
  EXPECT_EQ(driver.find("NonFiniteGradient")->blame->tensor, "layers.0");
}

TEST(Blame, AnUnknownMinusInfBeforeItIsMentioned) {
  Driver driver;
  driver.attempt(true, [](AttemptDigest& digest) {
    digest.observed_activations = true;
    add_bad(digest, kAct0, 0, 0, 1);
    add_bad(digest, kAct1, 1);
  });
  const Blame& blame = *driver.find("NonFiniteGradient")->blame;
  EXPECT_EQ(blame.tensor, "layers.1");
  EXPECT_NE(blame.note.find("layers.0 held -Inf"), std::string::npos) << blame.note;
}

TEST(Blame, AMissingRankIsMentioned) {
  Driver driver({.ranks = 3});
  driver.attempt(false);
  for (const Rank rank : {0u, 2u}) {
    AttemptDigest digest = driver.digest(rank, true);
    digest.observed_activations = digest.observed_activation_gradients = digest.observed_gradients = true;
    add_bad(digest, kGrad1, 1);
    driver.send(digest);
  }
  driver.close(driver.next, {1});
  const Blame& blame = *driver.find("NonFiniteGradient")->blame;
  EXPECT_FALSE(blame.rank_of_origin.has_value());
  EXPECT_NE(blame.note.find("rank 1, whose reports are missing"), std::string::npos) << blame.note;
}

TEST(Blame, ManyRanksConsequencesDoNotKeepTheOriginOut) {
  TensorTable table;
  for (std::uint32_t layer = 0; layer < 600; ++layer) {
    TensorInfo info;
    info.name = "layers." + std::to_string(layer);
    info.role = Role::kActivation;
    info.forward_index = layer;
    table.push_back(info);
  }
  const auto shared = std::make_shared<const TensorTable>(std::move(table));
  JoinedAttempt joined;
  for (const Rank rank : {0u, 1u, 2u}) {  // later ranks hold earlier layers, as stages of a pipeline may
    AttemptDigest digest;
    digest.rank = rank;
    digest.table = shared;
    for (std::uint32_t layer = (2 - rank) * 200; layer < (3 - rank) * 200; ++layer) add_bad(digest, layer, 1);
    joined.join(digest);
  }
  EXPECT_EQ(joined.non_finite.size(), JoinedAttempt::kMaxTensors);
  EXPECT_EQ(joined.non_finite.front().name, "layers.0");
  EXPECT_EQ(joined.non_finite.front().ranks, std::vector<Rank>{2});
}

}  // namespace
}  // namespace scalewatch::domain
