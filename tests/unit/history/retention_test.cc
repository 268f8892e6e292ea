// What goes and what stays, by age, number, size and attempts; and the space comes back.
#include <gmock/gmock.h>

#include "server/history/history_api.h"
#include "tests/unit/history/fixtures.h"

namespace scalewatch::history {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Retain : public ::testing::Test {
 protected:
  // Runs r1, r2 ... of 200 attempts each, whose last reports came a day apart, r1's first; the last run is still running.
  void fill(int runs) {
    StoreOptions options;
    options.compaction.thread = false;
    store_ = SqliteStore::open(dir_.path, options);
    for (int i = 1; i <= runs; ++i) {
      const std::string uid = "u" + std::to_string(i);
      engine::CommitBatch batch;
      auto run = run_row(uid, "r" + std::to_string(i));
      run.last_report_ms = i * kDay;
      run.status = i == runs ? v1::RUN_STATUS_RUNNING : v1::RUN_STATUS_FINISHED;
      batch.runs = {run};
      const auto stream = incarnation_row(uid, 0, static_cast<std::uint8_t>(i));
      batch.incarnations = {stream};
      std::vector<Tensor> tensors;
      std::vector<Value> values;
      for (std::uint32_t t = 0; t < 70; ++t) {
        tensors.push_back({"t" + std::to_string(t)});
        values.push_back({t, 1});
      }
      batch.tables = {table_row(stream, tensors)};
      for (std::uint64_t a = 1; a <= 200; ++a) {
        values[3] = {3, a == 50 ? 4096.0F : 1.0F};
        batch.reports.push_back(report_row(stream, a, a, a, report_of(values)));
        batch.reports.back().scalers = {scaler_row(1, 2, 2)};
      }
      batch.inputs = {{uid, 1000, "input"}};
      batch.snapshots = {{uid, 1000, "state"}};
      batch.alerts = {{uid + "/a", uid, "Rule", 1, v1::ALERT_STATE_RESOLVED, 1, 1, "blob"}};
      store_->commit(batch);
    }
    store_->compactor().run_now(true);
    store_.reset();
  }
  // Opens with these options; the clock stands a day after the last run's end.
  void keep(RetentionOptions retention, int runs) {
    StoreOptions options;
    options.compaction.thread = false;
    options.retention = retention;
    store_ = SqliteStore::open(dir_.path, options);
    while (store_->retention().step((runs + 1) * kDay)) {
    }
    while (store_->retention().shrink(0)) {
    }
  }
  std::vector<std::string> names() {
    ReadPool::Lease lease(store_->readers());
    Query query(*lease, "SELECT name FROM runs ORDER BY id");
    std::vector<std::string> names;
    while (query.step()) names.push_back(query.bytes(0));
    return names;
  }
  std::int64_t count(const std::string& sql) {
    ReadPool::Lease lease(store_->readers());
    return (*lease).scalar(("SELECT count(*) FROM " + sql).c_str());
  }

  static constexpr std::int64_t kDay = 86'400'000;
  TempDir dir_;
  std::unique_ptr<SqliteStore> store_;
};

TEST_F(Retain, OldRunsGoWithAllTheirRowsPinnedAndRunningOnesStay) {
  fill(5);
  const auto size = std::filesystem::file_size(dir_.path / "history.db");
  RetentionOptions options;
  options.max_age = std::chrono::hours(60);
  options.pinned = "keep*, r2";
  keep(options, 5);
  EXPECT_THAT(names(), ElementsAre("r2", "r4", "r5"));
  for (const char* table : {"reports", "scaler_rows"}) EXPECT_EQ(count(table), 3 * 200) << table;
  for (const char* table : {"streams", "table_deltas", "snapshots", "inputs", "alerts"}) EXPECT_EQ(count(table), 3) << table;
  EXPECT_EQ(count("chunks WHERE id >> 40 NOT IN (SELECT id FROM streams)"), 0);
  EXPECT_EQ(count("summaries WHERE id >> 40 NOT IN (SELECT id FROM streams)"), 0);
  EXPECT_EQ(count("scores WHERE id >> 40 NOT IN (SELECT id FROM streams)"), 0);
  EXPECT_EQ(count("stretches WHERE stream NOT IN (SELECT id FROM streams)"), 0);
  EXPECT_EQ(count("payloads WHERE id NOT IN (SELECT id FROM reports)"), 0);
  {
    ReadPool::Lease lease(store_->readers());
    EXPECT_EQ((*lease).scalar("PRAGMA freelist_count"), 0);
  }
  store_.reset();
  EXPECT_LT(std::filesystem::file_size(dir_.path / "history.db"), size);
}

TEST_F(Retain, ARunThatBeginsAnewWhileItIsRemovedKeepsWhatCame) {
  fill(3);
  StoreOptions options;
  options.compaction.thread = false;
  options.retention.max_age = std::chrono::hours(1);
  store_ = SqliteStore::open(dir_.path, options);
  std::string held;
  store_->retention().set_holder([&](const std::string& name, const std::function<void()>& work) {
    if (name == held) return false;
    if (work) work();
    return true;
  });
  const auto api = make_history_api(*store_);
  const auto told = [&] {
    v1::GetAttemptRequest request;
    request.set_run("r1");
    v1::GetAttemptResponse response;
    return api->get_attempt(request, response).message;
  };
  EXPECT_EQ(told(), "");
  while (count("reports") > 3 * 200 - 100) ASSERT_TRUE(store_->retention().step(4 * kDay));
  EXPECT_THAT(told(), HasSubstr("is being removed"));  // and not what is left of it
  held = "r1";
  auto run = run_row("u1", "r1");
  run.status = v1::RUN_STATUS_RUNNING;
  const auto stream = incarnation_row("u1", 0, 99);
  engine::CommitBatch batch;
  batch.runs = {run};
  batch.incarnations = {stream};
  batch.tables = {table_row(stream, {{"t0"}})};
  for (std::uint64_t a = 1; a <= 10; ++a) batch.reports.push_back(report_row(stream, a, 2000 + a, a, report_of({{0, 1}})));
  batch.inputs = {{"u1", 2011, "input"}};
  store_->commit(batch);
  while (store_->retention().step(4 * kDay)) {
  }
  EXPECT_THAT(names(), ElementsAre("r1", "r3"));
  EXPECT_EQ(count("reports WHERE run = 1 AND pos > 2000"), 10);
  EXPECT_EQ(count("streams WHERE run = 1"), 2);
  EXPECT_EQ(told(), "");
  EXPECT_EQ(count("inputs WHERE run = 1 AND pos > 2000"), 1);
  // One more of an incarnation that was there before.
  engine::CommitBatch more;
  more.reports = {report_row(incarnation_row("u1", 0, 1), 201, 2012, 201, report_of({{0, 1}}))};
  store_->commit(more);
  // It ended, and nobody has it in memory any more.
  held.clear();
  run.status = v1::RUN_STATUS_FINISHED;
  batch = {};
  batch.runs = {run};
  store_->commit(batch);
  while (store_->retention().step(5 * kDay)) {
  }
  EXPECT_THAT(names(), ElementsAre("r3"));
}

// Compaction remembers them: it would release the payloads of reports that came under ids of removed ones.
TEST_F(Retain, IdsOfRemovedRowsAreNotGivenOutAgain) {
  store_ = SqliteStore::open(dir_.path);
  const auto commit = [&](const std::string& uid) {
    const auto stream = incarnation_row(uid, 0, 1);
    engine::CommitBatch batch;
    batch.runs = {run_row(uid, uid)};
    batch.incarnations = {stream};
    for (std::uint64_t a = 1; a <= 3; ++a) batch.reports.push_back(report_row(stream, a, a, a, report_of({{0, 1}})));
    store_->commit(batch);
    store_->commit(batch);  // what is there stays as it is
  };
  commit("before");
  store_->remove_run("before");
  EXPECT_EQ(count("reports"), 0);
  commit("after");
  EXPECT_EQ(count("reports WHERE id BETWEEN 4 AND 6"), 3);
  EXPECT_EQ(count("payloads WHERE id BETWEEN 4 AND 6"), 3);
  EXPECT_EQ(count("streams WHERE id = 2"), 1);
}

TEST_F(Retain, OnlyTheNewestRunsStay) {
  fill(4);
  RetentionOptions options;
  options.max_runs = 2;
  keep(options, 4);
  EXPECT_THAT(names(), ElementsAre("r3", "r4"));
}

TEST_F(Retain, ARunOfWhichASinkHasNotTakenAllWaitsUntilItHas) {
  fill(5);
  engine::CommitBatch batch;
  batch.outbox = {{"u1/a/resolved", "pager", "u1/a", "resolved", 1, "alert"}};
  store_ = SqliteStore::open(dir_.path);
  store_->commit(batch);
  store_.reset();
  RetentionOptions options;
  options.max_runs = 3;
  keep(options, 5);
  EXPECT_THAT(names(), ElementsAre("r1", "r3", "r4", "r5")) << "none goes in its place";
  batch = {};
  batch.outbox_updates = {{.key = "u1/a/resolved", .sink = "pager", .delivered = true, .tries = 1, .last_error = {}}};
  store_->commit(batch);
  store_.reset();
  keep(options, 5);
  EXPECT_THAT(names(), ElementsAre("r3", "r4", "r5"));
}

TEST_F(Retain, ARunWithOpenAlertsWaitsUntilTheyResolveButNotForEver) {
  fill(3);
  const auto set = [&](const std::string& uid, v1::AlertState state, std::int64_t changed_ms) {
    store_ = SqliteStore::open(dir_.path);
    engine::CommitBatch batch;
    batch.alerts = {{uid + "/a", uid, "Rule", 1, state, 1, changed_ms, "blob"}};
    store_->commit(batch);
    store_.reset();
  };
  RetentionOptions options;
  options.max_age = std::chrono::hours(1);
  set("u1", v1::ALERT_STATE_FIRING, 2);
  set("u2", v1::ALERT_STATE_ACKNOWLEDGED, 2);
  keep(options, 3);
  EXPECT_THAT(names(), ElementsAre("r1", "r2", "r3"));
  store_.reset();
  set("u1", v1::ALERT_STATE_RESOLVED, 3);
  keep(options, 3);
  EXPECT_THAT(names(), ElementsAre("r2", "r3"));
  store_.reset();
  keep(options, 9);
  EXPECT_THAT(names(), ElementsAre("r3"));
}

// NTP, a machine that resumes, a slip of the hand: what went by it would be gone for good.
TEST_F(Retain, AClockThatWasSetForwardRemovesNothingForADay) {
  fill(3);
  StoreOptions options;
  options.compaction.thread = false;
  options.retention.max_age = std::chrono::hours(9 * 24);
  options.retention.every = std::chrono::milliseconds(0);
  store_ = SqliteStore::open(dir_.path, options);
  const auto go = [&](std::int64_t wall, std::int64_t steady) {
    while (store_->retention().step(wall, steady)) {
    }
  };
  go(4 * kDay, 0);
  go(104 * kDay, 1000);
  go(104 * kDay + kDay / 2, kDay / 2);
  EXPECT_THAT(names(), ElementsAre("r1", "r2", "r3"));
  go(5 * kDay, kDay + 2000);  // it is right again
  go(105 * kDay, kDay + 3000);
  EXPECT_THAT(names(), ElementsAre("r1", "r2", "r3"));
  go(106 * kDay + 4000, 2 * kDay + 4000);  // it stays so
  EXPECT_THAT(names(), ElementsAre("r3"));
}

TEST_F(Retain, WhoKnowsOpenAlertsOfARunHasThemResolvedBeforeItGoes) {
  fill(3);
  RetentionOptions retention;
  retention.max_age = std::chrono::hours(1);
  retention.every = std::chrono::milliseconds(0);
  StoreOptions options;
  options.compaction.thread = false;
  options.retention = retention;
  store_ = SqliteStore::open(dir_.path, options);
  bool open = true;
  store_->retention().set_holder(
      [](const std::string&, const std::function<void()>& work) {
        if (work) work();
        return true;
      },
      [&](const std::string& uid) { return uid == "u1" && open; });
  while (store_->retention().step(9 * kDay)) {
  }
  EXPECT_THAT(names(), ElementsAre("r1", "r3"));
  open = false;
  while (store_->retention().step(9 * kDay)) {
  }
  EXPECT_THAT(names(), ElementsAre("r3"));
}

TEST_F(Retain, ARunThatIsThinnedStillTellsItsExtremes) {
  fill(2);
  RetentionOptions options;
  options.thin_after = std::chrono::hours(12);
  keep(options, 2);
  EXPECT_EQ(count("chunks WHERE id >> 40 = 1"), 0);
  EXPECT_GT(count("chunks WHERE id >> 40 = 2"), 0);
  EXPECT_EQ(count("scores WHERE id >> 40 = 1"), 0);
  EXPECT_GT(count("scores WHERE id >> 40 = 2"), 0);
  const auto api = make_history_api(*store_);
  v1::GetTensorHistoryRequest request;
  request.set_run("r1");
  request.set_tensor("t3");
  v1::GetTensorHistoryResponse response;
  ASSERT_TRUE(api->get_tensor_history(request, response).ok());
  std::uint32_t attempts = 0;
  float largest = 0;
  for (const auto& point : response.points()) {
    attempts += point.attempts();
    largest = std::max(largest, point.record().absmax());
  }
  EXPECT_EQ(attempts, 200U);
  EXPECT_EQ(largest, 4096);
  v1::TopTensorsRequest top;
  top.set_run("r1");
  top.set_by(v1::TopTensorsRequest::BY_ABSMAX);
  top.mutable_range()->set_first(1);
  v1::TopTensorsResponse leaders;
  ASSERT_TRUE(api->top_tensors(top, leaders).ok());
  ASSERT_GT(leaders.tensors_size(), 0);
  EXPECT_EQ(leaders.tensors(0).info().name(), "t3");
}

TEST_F(Retain, ASizeIsKeptByThinningThenByRemovingTheOldest) {
  fill(4);
  RetentionOptions options;
  options.max_bytes = 1;
  keep(options, 4);
  EXPECT_THAT(names(), ElementsAre("r4"));
  EXPECT_GT(count("chunks"), 0);  // the running one's
}

TEST_F(Retain, ARunBeyondItsQuotaLosesTheDetailOfItsOldestAttempts) {
  fill(2);
  RetentionOptions options;
  store_ = SqliteStore::open(dir_.path, {});
  const auto whole = count("chunks");
  std::int64_t bytes = 0;
  {
    ReadPool::Lease lease(store_->readers());
    bytes = (*lease).scalar("SELECT sum(length(frames)) FROM chunks WHERE id < 2 << 40");
  }
  store_.reset();
  options.max_run_bytes = static_cast<std::uint64_t>(bytes) - 1;
  options.pinned = "r1";
  keep(options, 2);
  EXPECT_EQ(count("stretches WHERE thinned"), 1);
  EXPECT_EQ(count("stretches WHERE thinned AND stream = 2 AND first_attempt = 1"), 1);  // of r2, for r1 is pinned
  const auto told = store_->retention().run_bytes();
  ASSERT_EQ(told.size(), 1U) << "pinned runs have no limit";
  EXPECT_EQ(told.begin()->first, "r2");
  ReadPool::Lease lease(store_->readers());
  const std::int64_t left = (*lease).scalar("SELECT sum(length(frames)) FROM chunks WHERE id >= 2 << 40");
  EXPECT_EQ(told.begin()->second, static_cast<std::uint64_t>(left)) << "as it is after the thinning";
  EXPECT_LT(count("chunks"), whole);
  EXPECT_EQ(count("reports"), 400);
}

TEST_F(Retain, OldAttemptsOfARunningRunAreThinned) {
  fill(1);
  RetentionOptions options;
  options.keep_attempts = 60;
  keep(options, 1);
  EXPECT_EQ(count("stretches WHERE thinned"), 1);
  EXPECT_EQ(count("stretches WHERE NOT thinned"), 1);
  EXPECT_EQ(count("reports"), 200);
}

TEST_F(Retain, AttemptsOfEarlierSegmentsCountAsOldOnes) {
  fill(1);
  {
    StoreOptions options;
    options.compaction.thread = false;
    store_ = SqliteStore::open(dir_.path, options);
    for (std::uint32_t segment = 2; segment <= 4; ++segment) {
      engine::CommitBatch batch;
      auto run = run_row("u1", "r1");
      run.segment = segment;
      run.status = v1::RUN_STATUS_RUNNING;
      batch.runs = {run};
      auto stream = incarnation_row("u1", 0, static_cast<std::uint8_t>(10 + segment));
      stream.segment = segment;
      batch.incarnations = {stream};
      batch.tables = {table_row(stream, {{"t"}})};
      for (std::uint64_t a = 1; a <= 40; ++a) {
        batch.reports.push_back(report_row(stream, a, 2000 + 40 * segment + a, a, report_of({{0, 1}})));
        batch.reports.back().segment = segment;
      }
      store_->commit(batch);
    }
    store_->compactor().run_now(true);
    store_.reset();
  }
  RetentionOptions options;
  options.keep_attempts = 80;
  keep(options, 1);
  const auto whole = [&](int segment) {
    return count("stretches JOIN streams ON streams.id = stretches.stream WHERE NOT thinned AND segment = " +
                 std::to_string(segment));
  };
  EXPECT_EQ(whole(1), 0);
  EXPECT_EQ(whole(2), 0);
  EXPECT_EQ(whole(3), 1);
  EXPECT_EQ(whole(4), 1);
}

// A server that ends in the middle of it: what is left of the run must not pass for all of it, and goes, pinned or not by now.
TEST_F(Retain, WhatAServerDidNotRemoveToTheEndGoesAtTheNextStart) {
  fill(3);
  RetentionOptions remove;
  remove.max_runs = 2;
  const auto open = [&](const RetentionOptions& retention) {
    StoreOptions options;
    options.compaction.thread = false;
    options.retention = retention;
    store_.reset();
    store_ = SqliteStore::open(dir_.path, options);
  };
  open(remove);
  while (count("reports WHERE run = 1") == 200) ASSERT_TRUE(store_->retention().step(4 * kDay));
  ASSERT_GT(count("reports WHERE run = 1"), 0);
  RetentionOptions pinned;
  pinned.pinned = "r*";
  open(pinned);
  EXPECT_EQ(store_->retention().removing(), 1) << "nobody is answered from what is left";
  while (store_->retention().step(4 * kDay)) {
  }
  EXPECT_THAT(names(), ElementsAre("r2", "r3"));
  EXPECT_EQ(count("removals"), 0);
}

TEST_F(Retain, ARunThatGoesOnAfterTheRestartKeepsWhatIsLeft) {
  fill(3);
  RetentionOptions remove;
  remove.max_runs = 2;
  StoreOptions options;
  options.compaction.thread = false;
  options.retention = remove;
  store_ = SqliteStore::open(dir_.path, options);
  while (count("reports WHERE run = 1") == 200) ASSERT_TRUE(store_->retention().step(4 * kDay));
  engine::CommitBatch batch;
  auto run = run_row("u1", "r1");
  run.status = v1::RUN_STATUS_RUNNING;
  batch.runs = {run};
  store_->commit(batch);
  store_.reset();
  store_ = SqliteStore::open(dir_.path, options);
  EXPECT_EQ(store_->retention().removing(), -1);
  store_->retention().step(4 * kDay);
  EXPECT_GT(count("reports WHERE run = 1"), 0);
  EXPECT_EQ(count("removals WHERE run = 1"), 0);
}

}  // namespace
}  // namespace scalewatch::history
