// Runs that only the shared history had, and that come back into the store: how long they stay.
#include <gmock/gmock.h>

#include <cstddef>

#include "server/history/feed_state.h"
#include "server/history/shared_history.h"
#include "tests/unit/history/fixtures.h"

namespace scalewatch::history {
namespace {

using ::testing::ElementsAre;

constexpr std::int64_t kDay = 86'400'000;
constexpr std::int64_t kHour = 3'600'000;
constexpr std::int64_t kNow = 100 * kDay;

// Has every run, over for long, with an alert.
class EveryRun final : public SharedHistory {
 public:
  std::vector<SharedRun> list_runs(std::size_t /*limit*/, Which /*which*/) override { return {}; }
  std::optional<SharedRun> find_run(const std::string& /*name_or_uid*/) override { return {}; }
  std::optional<SharedRun> find_named(const std::string& /*name*/) override { return {}; }
  std::uint64_t last_place(const std::string& /*run_uid*/, std::uint64_t /*term*/) override { return 0; }
  std::vector<engine::AlertRow> open_alerts(std::size_t /*limit*/) override { return {}; }
  std::set<std::string> alert_ids(const std::string& /*run_uid*/) override { return {}; }
  std::uint64_t claim(const std::string& /*name*/, const std::string& /*instance*/, std::uint64_t /*known*/) override {
    return 1;
  }
  bool load_run(const std::string& run_uid, const std::function<void(engine::CommitBatch&&)>& take) override {
    engine::CommitBatch batch;
    batch.runs = {run_row(run_uid, "name of " + run_uid)};
    batch.runs[0].status = v1::RUN_STATUS_FINISHED;
    const auto stream = incarnation_row(run_uid, 0, 1);
    batch.incarnations = {stream};
    for (std::uint64_t a = 1; a <= 3; ++a) batch.reports.push_back(report_row(stream, a, a, a, report_of({{0, 1}})));
    batch.alerts = {{run_uid + "/a", run_uid, "Rule", 1, v1::ALERT_STATE_RESOLVED, 1, 1, "blob"}};
    take(std::move(batch));
    return true;
  }
  std::map<std::uint32_t, std::uint64_t> floors(const std::string& /*run_uid*/) override { return {{1, 4}}; }
};

class Brought : public ::testing::Test {
 protected:
  void open(const RetentionOptions& limits) {
    StoreOptions options;
    options.compaction.thread = false;
    options.retention = limits;
    options.retention.every = std::chrono::milliseconds(0);
    store_ = SqliteStore::open(dir_.path, options);
  }
  void bring(const std::string& uid, std::uint64_t term = 0) { ASSERT_TRUE(import_run(shared_, uid, term, *store_)); }
  void look(std::int64_t steady_ms) {
    while (store_->retention().step(kNow + steady_ms, steady_ms)) {
    }
  }
  std::vector<std::string> uids() {
    ReadPool::Lease lease(store_->readers());
    Query query(*lease, "SELECT uid FROM runs ORDER BY id");
    std::vector<std::string> uids;
    while (query.step()) uids.push_back(query.bytes(0));
    return uids;
  }
  static RetentionOptions by_age() {
    RetentionOptions limits;
    limits.max_age = std::chrono::hours(1);
    return limits;
  }

  TempDir dir_;
  EveryRun shared_;
  std::unique_ptr<SqliteStore> store_;
};

TEST_F(Brought, ARunThatIsAskedForStaysForAnHourAfterItsTimeIsOver) {
  open(by_age());
  bring("asked");
  bring("taken", 2);
  look(kHour);
  EXPECT_THAT(uids(), ElementsAre("asked"));
  look(2 * kHour - 1);
  EXPECT_THAT(uids(), ElementsAre("asked"));
  look(2 * kHour);
  EXPECT_THAT(uids(), ElementsAre());
  bring("asked");
  look(3 * kHour);
  EXPECT_THAT(uids(), ElementsAre("asked"));
  look(4 * kHour);
  EXPECT_THAT(uids(), ElementsAre());
}

TEST_F(Brought, ItStaysBeyondTheNumberOfRunsAndCostsNoOther) {
  RetentionOptions limits;
  limits.max_runs = 1;
  open(limits);
  engine::CommitBatch batch;
  batch.runs = {run_row("own", "own")};
  batch.runs[0].status = v1::RUN_STATUS_FINISHED;
  batch.runs[0].last_report_ms = kNow;
  store_->commit(batch);
  bring("asked");
  look(0);
  EXPECT_THAT(uids(), ElementsAre("own", "asked"));
  look(kHour);
  EXPECT_THAT(uids(), ElementsAre("own"));
}

TEST_F(Brought, ItStaysBeyondTheSizeOfTheHistory) {
  RetentionOptions limits;
  limits.max_bytes = 1;
  open(limits);
  bring("asked");
  look(0);
  EXPECT_THAT(uids(), ElementsAre("asked"));
  look(kHour);
  EXPECT_THAT(uids(), ElementsAre());
}

TEST_F(Brought, OfVeryManyTheLastHundredStay) {
  open(by_age());
  for (int i = 0; i < 102; ++i) bring("u" + std::to_string(i + 100));
  look(0);
  EXPECT_EQ(uids().size(), 100U);
  EXPECT_EQ(uids().front(), "u102");
}

// It is brought while it is being removed: what came is not part of that.
TEST_F(Brought, ARemovalEndsWithTheRunThatItBegan) {
  open(by_age());
  bring("asked");
  look(0);
  ASSERT_TRUE(store_->retention().step(kNow + kHour, kHour));
  EXPECT_THAT(uids(), ElementsAre("asked"));
  bring("asked");
  look(kHour);
  EXPECT_THAT(uids(), ElementsAre("asked"));
  EXPECT_EQ(FeedState(*store_).progress("asked").pos, 3U);
  EXPECT_TRUE(store_->find("asked/a"));
}

TEST_F(Brought, ADoubtedLogGoesAsFarAsItDidThen) {
  open({});
  bring("000000000000000a", 3);
  FeedState state(*store_);
  EXPECT_EQ(state.last_place("000000000000000a"), 3U);
  EXPECT_TRUE(state.doubted().empty());
  state.doubt_all();
  EXPECT_THAT(state.doubted(), ElementsAre("000000000000000a"));
  EXPECT_EQ(state.progress("000000000000000a").term, 3U);
  const auto grow = [&](std::uint64_t pos) {
    engine::CommitBatch more;
    more.inputs.push_back({"000000000000000a", pos, "input"});
    store_->commit(more);
  };
  grow(4);
  EXPECT_EQ(state.last_place("000000000000000a"), 3U);
  state.doubt_all();  // once more: what came since is no better
  EXPECT_EQ(state.last_place("000000000000000a"), 3U);
  state.trust("000000000000000a");
  EXPECT_EQ(state.last_place("000000000000000a"), 4U);
  state.doubt_all();
  state.owned("000000000000000a", 4);
  grow(5);
  EXPECT_EQ(state.last_place("000000000000000a"), 5U);
  state.doubt_all();
  bring("000000000000000a", 5);
  EXPECT_TRUE(state.doubted().empty());
}

}  // namespace
}  // namespace scalewatch::history
