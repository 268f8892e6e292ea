// Who is asked for what: one leader a distinct shard, and a microscope around what open findings blame.
#include "server/domain/collection.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace scalewatch::domain {
namespace {

// Layers of a weight, its gradient and an activation, held as `shard`. `mirrored`: the same tensors in another order.
std::shared_ptr<const TensorTable> make_table(std::uint32_t layers, const std::string& shard = {}, bool mirrored = false) {
  TensorTable table;
  for (std::uint32_t layer = 0; layer < layers; ++layer) {
    const std::string name = std::string("l") + std::to_string(layer);
    for (const auto& [tensor, role] : {std::pair(name + ".weight", Role::kParameter),
                                       std::pair(name + ".weight", Role::kGradient), std::pair(name, Role::kActivation)}) {
      table.push_back({.name = tensor,
                       .role = role,
                       .dtype = DType::kFp16,
                       .numel = 8,
                       .forward_index = layer,
                       .shard = shard,
                       .replica = {},
                       .optimizer = {}});
    }
  }
  if (mirrored) std::reverse(table.begin(), table.end());
  return std::make_shared<const TensorTable>(std::move(table));
}

CollectionRank rank_with(Rank rank, const std::shared_ptr<const TensorTable>& table) {
  return {rank, key_of(*table), table};
}

Finding finding(const std::string& tensor, std::optional<Rank> origin, Attempt last, Severity severity = Severity::kCritical) {
  Finding out;
  out.id = "Rule/" + tensor + "/1." + std::to_string(last);
  out.severity = severity;
  out.last_attempt = last;
  out.blame.emplace();
  out.blame->tensor = tensor;
  out.blame->role = tensor.ends_with("weight") ? Role::kGradient : Role::kActivation;
  out.blame->rank_of_origin = origin;
  if (origin) out.blame->ranks = {*origin};
  return out;
}

const CollectionRequest* request(const CollectionPlan& plan, Rank rank, const std::string& id) {
  const auto of = plan.find(rank);
  if (of == plan.end()) return nullptr;
  const auto found = std::find_if(of->second.begin(), of->second.end(), [&](const auto& each) { return each.id == id; });
  return found == of->second.end() ? nullptr : &*found;
}

TEST(Collection, OneLeaderOfEachDistinctShard) {
  const auto left = make_table(3, "0/2");
  const auto left_too = make_table(3, "0/2", /*mirrored=*/true);
  const auto right = make_table(3, "1/2");
  std::vector<CollectionRank> ranks{rank_with(0, left), rank_with(1, right), rank_with(2, left_too), rank_with(3, right),
                                    rank_with(4, std::make_shared<const TensorTable>())};
  CollectionPlan plan = plan_collection(ranks, {}, 0, {});
  EXPECT_FALSE(plan.contains(0));
  EXPECT_FALSE(plan.contains(1));
  EXPECT_FALSE(plan.contains(4)) << "without a table nobody knows what it holds";
  for (const Rank follower : {2U, 3U}) {
    const CollectionRequest* flow = request(plan, follower, "leader");
    ASSERT_NE(flow, nullptr) << follower;
    EXPECT_TRUE(flow->tensors.empty());
    EXPECT_EQ(flow->every, 0U) << "as often as its own sampling has it";
    EXPECT_EQ(flow->report_every, CollectionRequest::kNonFiniteOnly);
    EXPECT_EQ(std::count(flow->roles.begin(), flow->roles.end(), Role::kParameter), 0) << "replicas are compared by them";
    const CollectionRequest* state = request(plan, follower, "leader-state");
    ASSERT_NE(state, nullptr);
    EXPECT_EQ(state->report_every, 50U);
    EXPECT_EQ(std::count(state->roles.begin(), state->roles.end(), Role::kParameter), 1);
  }
  ranks.erase(ranks.begin());  // rank 0 is gone
  plan = plan_collection(ranks, {}, 0, {});
  EXPECT_FALSE(plan.contains(2)) << "it leads now";
  EXPECT_TRUE(plan.contains(3));
  EXPECT_TRUE(plan_collection(ranks, {}, 0, {.stats_leader = false}).empty());
}

TEST(Collection, RanksThatShareWeightsAndNotTheBatchLeadTheirOwnActivations) {
  std::vector<CollectionRank> ranks;
  for (Rank rank = 0; rank < 2; ++rank) {
    TensorTable table = *make_table(2);
    for (TensorInfo& info : table) {
      if (info.role == Role::kActivation) info.shard = std::to_string(rank);
    }
    ranks.push_back(rank_with(rank, std::make_shared<const TensorTable>(table)));
  }
  const CollectionPlan plan = plan_collection(ranks, {}, 0, {});
  EXPECT_FALSE(plan.contains(0));
  ASSERT_NE(request(plan, 1, "leader"), nullptr);
  EXPECT_EQ(request(plan, 1, "leader")->roles, std::vector<Role>{Role::kGradient});
  EXPECT_EQ(request(plan, 1, "leader-state")->roles, std::vector<Role>{Role::kParameter});
}

TEST(Collection, KeysOfGrowingTablesMeet) {
  const auto whole = make_table(4);
  const TensorTable part(whole->begin(), whole->begin() + 5);
  EXPECT_NE(key_of(part), key_of(*whole));
  EXPECT_EQ(key_of(*whole, key_of(part)), key_of(*whole));
  TensorTable other = *whole;
  other[2].role = Role::kActivationGradient;
  EXPECT_NE(key_of(other), key_of(*whole));
}

TEST(Collection, TheMicroscopeLooksAroundTheBlamedTensorAtItsOriginAndItsLeader) {
  std::vector<CollectionRank> ranks;
  for (Rank rank = 0; rank < 4; ++rank) ranks.push_back(rank_with(rank, make_table(9)));
  const std::vector<Finding> open{finding("l4", 2, 300)};
  const CollectionPlan plan = plan_collection(ranks, open, 300, {});
  const std::string id = "microscope/" + open[0].id;
  for (const Rank rank : {0U, 2U}) {
    const CollectionRequest* look = request(plan, rank, id);
    ASSERT_NE(look, nullptr) << rank;
    EXPECT_EQ(look->tensors.size(), 10U) << "two names in each of five places";
    EXPECT_EQ(look->tensors.front(), "l4");
    for (const char* name : {"l2", "l2.weight", "l6"})
      EXPECT_EQ(std::count(look->tensors.begin(), look->tensors.end(), name), 1);
    EXPECT_TRUE(look->roles.empty());
    EXPECT_EQ(look->every, 1U);
    EXPECT_EQ(look->report_every, 0U);
    EXPECT_TRUE(look->send_ring);
    EXPECT_EQ(look->until, 500U);
  }
  EXPECT_EQ(request(plan, 1, id), nullptr);
  EXPECT_EQ(request(plan, 3, id), nullptr);
  EXPECT_NE(request(plan, 2, "leader"), nullptr) << "all else it still leaves to its leader";

  EXPECT_EQ(request(plan_collection(ranks, open, 500, {}), 2, id)->until, 500U);
  EXPECT_EQ(request(plan_collection(ranks, open, 501, {}), 2, id), nullptr) << "it found nothing for too long";
  EXPECT_EQ(request(plan_collection(ranks, {}, 300, {}), 2, id), nullptr) << "resolved";
  EXPECT_EQ(request(plan_collection(ranks, open, 300, {.microscope = false}), 2, id), nullptr);
}

TEST(Collection, OnlyWhatIsBadEnoughAndBlamesATensorIsLookedAt) {
  const std::vector<CollectionRank> ranks{rank_with(0, make_table(3))};
  EXPECT_TRUE(plan_collection(ranks, {finding("l1", 0, 5, Severity::kInfo)}, 5, {}).empty());
  EXPECT_TRUE(plan_collection(ranks, {finding("", 0, 5)}, 5, {}).empty());
  EXPECT_TRUE(plan_collection(ranks, {finding("unheard.of", 0, 5)}, 5, {}).empty());
  EXPECT_FALSE(plan_collection(ranks, {finding("l1", 0, 5, Severity::kWarning)}, 5, {}).empty());
}

TEST(Collection, TheBudgetHoldsWorstFirst) {
  std::vector<CollectionRank> ranks;
  for (Rank rank = 0; rank < 100; ++rank) ranks.push_back(rank_with(rank, make_table(200)));
  std::vector<Finding> open;
  for (std::uint32_t i = 0; i < 10; ++i) open.push_back(finding(std::string("l") + std::to_string(20 * i), {}, 10));
  for (Finding& each : open) {
    for (Rank rank = 0; rank < 100; ++rank) each.blame->ranks.push_back(rank);  // after an all-reduce all hold it
  }
  open.push_back(open[0]);  // another finding with the same blame
  open.back().id = "Another";
  CollectionOptions options{.microscope_findings = 3, .microscope_tensors = 16, .microscope_ranks = 5};
  const CollectionPlan plan = plan_collection(ranks, open, 10, options);
  std::size_t asked = 0;
  std::size_t tensors = 0;
  for (const auto& [rank, requests] : plan) {
    bool any = false;
    for (const CollectionRequest& each : requests) {
      if (!each.id.starts_with("microscope/")) continue;
      any = true;
      if (rank == 0) tensors += each.tensors.size();
    }
    asked += any ? 1 : 0;
  }
  EXPECT_EQ(asked, 5U);
  EXPECT_EQ(tensors, 16U);
  EXPECT_NE(request(plan, 0, "microscope/Another"), nullptr) << "one request for both, under the older's name";
  EXPECT_EQ(request(plan, 0, "microscope/" + open[0].id), nullptr);
  EXPECT_NE(request(plan, 0, "microscope/" + open[1].id), nullptr);
  EXPECT_EQ(request(plan, 0, "microscope/" + open[5].id), nullptr);
}

}  // namespace
}  // namespace scalewatch::domain
