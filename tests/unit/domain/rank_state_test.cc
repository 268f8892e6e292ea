#include "server/domain/rank_state.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace scalewatch::domain {
namespace {

std::shared_ptr<const TensorTable> table_of(std::size_t layers) {
  TensorTable table;
  for (std::uint32_t i = 0; i < layers; ++i) {
    for (const Role role : {Role::kParameter, Role::kActivation, Role::kActivationGradient, Role::kGradient}) {
      TensorInfo info;
      info.name = std::string("t") + std::to_string(i);
      info.role = role;
      info.forward_index = i;
      info.replica = "dp";
      info.numel = 10;
      table.push_back(info);
    }
  }
  return std::make_shared<const TensorTable>(std::move(table));
}

// A block over all tensors of a role, with one magnitude.
struct Block {
  std::vector<std::uint32_t> ids;
  std::vector<float> min, max, absmin;
  std::vector<double> sum, sum_sq;
  RecordColumns columns;

  Block(const TensorTable& table, Role role, float absmax) {
    for (std::uint32_t id = 0; id < table.size(); ++id) {
      if (table[id].role == role) ids.push_back(id);
    }
    min.assign(ids.size(), -absmax);
    max.assign(ids.size(), absmax / 2);
    absmin.assign(ids.size(), absmax / 4);
    sum.assign(ids.size(), 1);
    sum_sq.assign(ids.size(), 2);
    columns.role = role;
    columns.target = DType::kFp16;
    columns.count = static_cast<std::uint32_t>(ids.size());
  }
  RecordColumns& view() {
    columns.ids = ids;
    columns.min = min;
    columns.max = max;
    columns.absmin_nonzero = absmin;
    columns.sum = sum;
    columns.sum_sq = sum_sq;
    return columns;
  }
};

AttemptDigest fold(RankState& state, std::shared_ptr<const TensorTable> table, std::vector<RecordColumns> blocks,
                   bool retrospective = false) {
  AttemptDigest digest;
  digest.table = std::move(table);
  digest.retrospective = retrospective;
  state.fold(blocks, digest);
  return digest;
}

TEST(RankState, ListsNonFiniteTensorsInBlameOrder) {
  const auto table = table_of(3);
  RankState state;
  std::vector<RecordColumns> blocks;
  std::vector<Block> owners;
  for (const Role role : {Role::kGradient, Role::kActivationGradient, Role::kActivation, Role::kParameter}) {
    owners.emplace_back(*table, role, 1.0F);
  }
  for (Block& block : owners) {
    block.columns.nan = {{2, 5}, {0, 1}};
    block.columns.pos_inf = {{0, 3}};
    block.columns.first_bad_micro = {{0, 2}};
    blocks.push_back(block.view());
  }
  const AttemptDigest digest = fold(state, table, blocks);
  std::vector<std::pair<Role, std::uint32_t>> order;
  for (const NonFiniteTensor& tensor : digest.non_finite)
    order.emplace_back((*table)[tensor.id].role, (*table)[tensor.id].forward_index);
  const std::vector<std::pair<Role, std::uint32_t>> expected{
      {Role::kParameter, 0},          {Role::kParameter, 2}, {Role::kActivation, 0},         {Role::kActivation, 2},
      {Role::kActivationGradient, 2}, {Role::kGradient, 2},  {Role::kActivationGradient, 0}, {Role::kGradient, 0}};
  EXPECT_EQ(order, expected);
  EXPECT_EQ(digest.non_finite_total, 8u);
  EXPECT_EQ(digest.non_finite[0].nan, 1u);
  EXPECT_EQ(digest.non_finite[0].pos_inf, 3u);
  EXPECT_EQ(digest.non_finite[0].first_bad_micro, 2u);
  EXPECT_FALSE(digest.non_finite[1].first_bad_micro.has_value());
  EXPECT_TRUE(digest.observed_gradients && digest.observed_activations && digest.observed_parameters);
}

TEST(RankState, AThousandPoisonedWeightsDoNotHideTheFlow) {
  const auto table = table_of(1000);
  RankState state;
  Block weights(*table, Role::kParameter, 1.0F);
  Block gradients(*table, Role::kGradient, 1.0F);
  for (std::uint32_t i = 0; i < 1000; ++i) weights.columns.nan.push_back({i, 1});
  for (std::uint32_t i = 0; i < 900; ++i) gradients.columns.nan.push_back({i, 1});
  const AttemptDigest digest = fold(state, table, {weights.view(), gradients.view()});
  EXPECT_EQ(digest.non_finite.size(), RankState::kMaxNonFinite);
  EXPECT_EQ(digest.non_finite_total, 1900u);
  EXPECT_EQ((*table)[digest.non_finite.front().id].forward_index, 0u);
  const auto first_gradient = std::find_if(digest.non_finite.begin(), digest.non_finite.end(),
                                           [&](const auto& tensor) { return (*table)[tensor.id].role == Role::kGradient; });
  ASSERT_NE(first_gradient, digest.non_finite.end());
  EXPECT_EQ((*table)[first_gradient->id].forward_index, 899u);
}

TEST(RankState, TellsWhichTensorFellBeforeTheAttempt) {
  const auto table = table_of(3);
  RankState state;
  for (int i = 0; i < 30; ++i) {
    Block block(*table, Role::kGradient, 1.0F);
    block.min[1] = i < 25 ? -1.0F : -std::ldexp(1.0F, i - 24);  // up by an octave an attempt
    const AttemptDigest digest = fold(state, table, {block.view()});
    if (i < 25) {
      EXPECT_FALSE(digest.falling.has_value()) << i;
    }
  }
  Block block(*table, Role::kGradient, 1.0F);
  block.min[2] = -60000.0F;  // what this attempt does is no sign before it
  const AttemptDigest digest = fold(state, table, {block.view()});
  ASSERT_TRUE(digest.falling.has_value());
  EXPECT_EQ((*table)[digest.falling->id].name, "t1");
  EXPECT_GT(digest.falling->octaves, 3);
}

TEST(RankState, TensorsWithoutFiniteOrNonZeroElementsAreNoSamples) {
  const auto table = table_of(1);
  RankState state;
  for (int i = 0; i < 40; ++i) {
    Block block(*table, Role::kGradient, i % 2 == 0 ? 0.0F : NAN);
    EXPECT_FALSE(fold(state, table, {block.view()}).falling.has_value());
  }
}

TEST(RankState, RecoveredTensorsAreToldOnce) {
  const auto table = table_of(2);
  RankState state;
  Block bad(*table, Role::kParameter, 1.0F);
  bad.columns.nan = {{1, 1}};
  EXPECT_TRUE(fold(state, table, {bad.view()}).recovered.empty());
  EXPECT_TRUE(fold(state, table, {}).recovered.empty());  // not looked at
  Block good(*table, Role::kParameter, 1.0F);
  const auto recovered = fold(state, table, {good.view()}).recovered;
  ASSERT_EQ(recovered.size(), 1u);
  EXPECT_EQ((*table)[recovered[0]].name, "t1");
  EXPECT_TRUE(fold(state, table, {good.view()}).recovered.empty());
}

TEST(RankState, FingerprintsEqualRecordsEqually) {
  const auto table = table_of(2);
  RankState a;
  RankState b;
  Block one(*table, Role::kParameter, 1.0F);
  Block two(*table, Role::kParameter, 1.0F);
  one.min[0] = 0.0F;
  two.min[0] = -0.0F;
  two.sum[1] = 1.0000001;
  const auto left = fold(a, table, {one.view()}).replicas;
  const auto right = fold(b, table, {two.view()}).replicas;
  ASSERT_EQ(left.size(), 2u);
  EXPECT_EQ(left[0].hash, right[0].hash);
  EXPECT_NE(left[1].hash, right[1].hash);
}

TEST(RankState, RetrospectiveDetailChangesNoState) {
  const auto table = table_of(3);
  RankState state;
  Block block(*table, Role::kParameter, 1.0F);
  fold(state, table, {block.view()});
  const std::string before = state.save();
  block.columns.nan = {{0, 1}};
  EXPECT_EQ(fold(state, table, {block.view()}, true).non_finite.size(), 1u);
  EXPECT_EQ(state.save(), before);
}

TEST(RankState, ContinuesFromASnapshotAsIfNeverCut) {
  const auto table = table_of(20);
  std::mt19937 random(3);
  RankState whole;
  RankState cut;
  for (int i = 0; i < 200; ++i) {
    Block block(*table, i % 3 == 0 ? Role::kParameter : Role::kGradient, 1.0F);
    for (float& value : block.min) value = -std::exp2(static_cast<float>(random() % 1000) / 80);
    if (random() % 4 == 0) block.columns.nan = {{static_cast<std::uint32_t>(random() % 20), 1}};
    const AttemptDigest expected = fold(whole, table, {block.view()});
    if (random() % 5 == 0) {
      RankState next;
      next.load(cut.save());
      cut = std::move(next);
    }
    const AttemptDigest actual = fold(cut, table, {block.view()});
    EXPECT_EQ(actual.recovered, expected.recovered);
    ASSERT_EQ(actual.falling.has_value(), expected.falling.has_value());
    if (actual.falling) {
      EXPECT_EQ(actual.falling->id, expected.falling->id);
      EXPECT_EQ(actual.falling->octaves, expected.falling->octaves);
    }
    ASSERT_EQ(cut.save(), whole.save());
  }
}

}  // namespace
}  // namespace scalewatch::domain
