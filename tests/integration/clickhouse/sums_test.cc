// Wide points of attempts that only ClickHouse has: it takes them together, and they are the points of the store all the same.
#include <limits>
#include <set>

#include "tests/integration/clickhouse/clickhouse_fixture.h"

namespace scalewatch::clickhouse {
namespace {

constexpr std::uint64_t kAttempts = 600;
constexpr std::uint64_t kBoth = 307;      // a second rank has records of this attempt and the next
constexpr std::uint64_t kNoNumber = 433;  // a sum is infinite

// A rank that tells all, of attempts without gaps, and another one of the same tensors that does so twice.
std::vector<engine::CommitBatch> leader_and_other() {
  std::mt19937 random(8);
  std::vector<engine::CommitBatch> batches(1);
  batches[0].runs = {history::run_row("u1", "alpha")};
  const auto leader = history::incarnation_row("u1", 0, 1);
  const auto other = history::incarnation_row("u1", 1, 2);
  for (const auto& stream : {leader, other}) {
    batches[0].incarnations.push_back(stream);
    batches[0].tables.push_back(history::table_row(stream, history::tensors()));
  }
  std::uint64_t pos = 0;
  for (std::uint64_t attempt = 1; attempt <= kAttempts; ++attempt) {
    if (attempt % 16 == 1) batches.emplace_back();
    auto report = history::random_report(random, attempt, history::kTensors);
    if (attempt == kNoNumber) report.mutable_blocks(0)->set_sum(0, std::numeric_limits<double>::infinity());
    // One that changes the format, too.
    if (attempt > kAttempts - 50) report.mutable_blocks(0)->set_target(v1::DTYPE_BF16);
    batches.back().reports.push_back(history::row_of(leader, attempt, ++pos, attempt, report));
    const bool both = attempt == kBoth || attempt == kBoth + 1;
    const auto of_other = both ? history::random_report(random, attempt, history::kTensors) : v1::Report();
    batches.back().reports.push_back(history::row_of(other, attempt, ++pos, attempt, of_other));
  }
  return batches;
}

// A tensor's points, one a line.
std::string points(history::SqliteStore& store, history::OlderHistory* older) {
  history::ApiLimits limits;
  limits.read_time = std::chrono::minutes(5);
  const auto api = history::make_history_api(store, limits, older);
  std::string all;
  for (const std::uint32_t most : {1U, 7U, 50U, 199U, 1000U}) {
    for (const char* tensor : {"t0", "t63", "t139"}) {
      for (const std::uint64_t first : {0U, 121U}) {
        v1::GetTensorHistoryRequest request;
        request.set_run("alpha");
        request.set_tensor(tensor);
        request.set_max_points(most);
        request.mutable_range()->set_first(first);
        v1::GetTensorHistoryResponse response;
        const auto status = api->get_tensor_history(request, response);
        all += request.ShortDebugString() + " -> " + status.message + "\n" + response.DebugString();
      }
    }
  }
  return all;
}

class Sums : public ClickHouseTest {
 protected:
  history::OlderSums of_t0(const history::AttemptGrid& grid) {
    return Older(options_).sums({"u1", 1, 1, kAttempts, {}, {}, false}, {"t0", v1::ROLE_GRADIENT}, grid);
  }
};

TEST_F(Sums, WidePointsAreThoseOfTheStore) {
  TempDir dir;
  const auto store = history::SqliteStore::open(dir.path, by_hand());
  for (const auto& batch : leader_and_other()) store->commit(batch);
  const std::string expected = points(*store, nullptr);
  feed(*store, {"u1"});
  TempDir far_dir;
  const auto far = names_only(far_dir);
  Older older(options_);
  history::expect_same(expected, points(*far, &older), "told together");

  // All of it was told together but for the two attempts that both have, and the one that no sum tells.
  const auto found = of_t0({1, 10});
  ASSERT_EQ(found.untold.size(), 2U);
  EXPECT_EQ(found.untold[0].first, 301U);
  EXPECT_EQ(found.untold[0].last, 310U);
  EXPECT_EQ(found.untold[1].first, 431U);
  EXPECT_EQ(found.untold[1].last, 440U);
  std::uint64_t records = 0;
  std::set<double> scales;
  for (const auto& one : found.sums) {
    records += one.sum.records;
    scales.insert(one.sum.scale_low);
    EXPECT_LE(one.attempts.last - one.attempts.first, 9U);
  }
  EXPECT_EQ(records, kAttempts - 20);
  EXPECT_EQ(scales.size(), 3U);
  EXPECT_LT(found.sums.size(), kAttempts / 10 + 20);  // two where the scale changes within a cell
}

TEST_F(Sums, RowsThatAreThereTwiceAreToldOnce) {
  TempDir dir;
  const auto store = history::SqliteStore::open(dir.path, by_hand());
  for (const auto& batch : leader_and_other()) store->commit(batch);
  const std::string expected = points(*store, nullptr);
  feed(*store, {"u1"});
  const std::string batches_before = batches_there();
  store->write(history::WriteClass::kCommit, [](history::Connection& writer) { writer.execute("DELETE FROM feed_runs"); });
  feed(*store, {"u1"}, 10'000);
  EXPECT_NE(batches_there(), batches_before) << "the second time did send rows";

  TempDir far_dir;
  const auto far = names_only(far_dir);
  Older older(options_);
  history::expect_same(expected, points(*far, &older), "sent twice");
  std::uint64_t records = 0;
  const auto found = of_t0({1, 10});
  for (const auto& one : found.sums) records += one.sum.records;
  for (const auto& cell : found.untold) records += cell.last - cell.first + 1;
  EXPECT_EQ(records, kAttempts);
}

}  // namespace
}  // namespace scalewatch::clickhouse
