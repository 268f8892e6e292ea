// Commits and what is read back of them, over a real file.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "tests/unit/history/fixtures.h"

namespace scalewatch::history {
namespace {

using ::testing::HasSubstr;

class Store : public ::testing::Test {
 protected:
  Store() : store_(SqliteStore::open(dir_.path)) {
    engine::CommitBatch batch;
    batch.runs.push_back(run_row("u1", "alpha"));
    batch.incarnations.push_back(stream_);
    store_->commit(batch);
  }
  void reopen() {
    store_.reset();
    store_ = SqliteStore::open(dir_.path);
  }

  TempDir dir_;
  engine::IncarnationRow stream_ = incarnation_row("u1", 3, 1);
  std::unique_ptr<SqliteStore> store_;
};

TEST_F(Store, RunsAreFoundByNameAndUidAndReplaced) {
  auto row = run_row("u1", "alpha");
  row.status = v1::RUN_STATUS_FINISHED;
  row.worst_open = v1::SEVERITY_CRITICAL;
  row.overview = std::string("\0\x01 bytes", 8);
  engine::CommitBatch batch;
  batch.runs = {row, run_row("u2", "beta")};
  store_->commit(batch);
  reopen();
  const auto found = store_->find_run("alpha");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->run_uid, "u1");
  EXPECT_EQ(found->status, v1::RUN_STATUS_FINISHED);
  EXPECT_EQ(found->worst_open, v1::SEVERITY_CRITICAL);
  EXPECT_EQ(found->overview, row.overview);
  EXPECT_EQ(store_->find_run("u2")->name, "beta");
  EXPECT_FALSE(store_->find_run("gamma"));
  batch.runs = {run_row("u3", "u2")};
  store_->commit(batch);
  EXPECT_EQ(store_->find_run("u2")->name, "beta");
  EXPECT_EQ(store_->find_named("u2")->run_uid, "u3");
  EXPECT_FALSE(store_->find_named("u1"));
  batch.runs[0].status = v1::RUN_STATUS_FINISHED;
  store_->commit(batch);
  const auto running = store_->list_running(10);
  ASSERT_EQ(running.size(), 1U);
  EXPECT_EQ(running[0].name, "beta");
}

TEST_F(Store, LostRunsWithSomethingOpenComeOldestFirst) {
  engine::CommitBatch batch;
  const auto add = [&](const char* name, v1::RunStatus status, v1::Severity open, std::int64_t last_report_ms) {
    auto row = run_row(std::string("uid-") + name, name);
    row.status = status;
    row.worst_open = open;
    row.last_report_ms = last_report_ms;
    batch.runs.push_back(row);
  };
  add("late", v1::RUN_STATUS_LOST, v1::SEVERITY_INFO, 20);
  add("early", v1::RUN_STATUS_LOST, v1::SEVERITY_CRITICAL, 10);
  add("settled", v1::RUN_STATUS_LOST, v1::SEVERITY_UNSPECIFIED, 5);
  add("running", v1::RUN_STATUS_RUNNING, v1::SEVERITY_CRITICAL, 5);
  store_->commit(batch);
  const auto lost = store_->list_lost(10);
  ASSERT_EQ(lost.size(), 2U);
  EXPECT_EQ(lost[0].name, "early");
  EXPECT_EQ(lost[1].name, "late");
  EXPECT_EQ(store_->list_lost(1).size(), 1U);
}

TEST_F(Store, IncarnationsAndTablesComeBackInOrderAndDurableSeqNeverFalls) {
  engine::CommitBatch batch;
  auto newer = incarnation_row("u1", 3, 9);
  newer.hello = "hello";
  newer.attempt_base = 40;
  newer.durable_seq = 5;
  newer.left = true;
  batch.incarnations = {newer, incarnation_row("u1", 0, 2)};
  batch.tables.push_back(table_row(newer, {{"a"}}, 1, 0));
  batch.tables.push_back(table_row(newer, {{"b"}}, 2, 1));
  store_->commit(batch);
  newer.durable_seq = 2;
  engine::CommitBatch again;
  again.incarnations = {newer};
  store_->commit(again);
  reopen();
  const auto rows = store_->incarnations("u1");
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].rank, 0U);
  EXPECT_EQ(rows[1].order, 1U);
  EXPECT_EQ(rows[2].incarnation, newer.incarnation);
  EXPECT_EQ(rows[2].durable_seq, 5U);
  EXPECT_EQ(rows[2].attempt_base, 40U);
  EXPECT_TRUE(rows[2].left);
  EXPECT_EQ(rows[2].hello, "hello");
  const auto tables = store_->tables("u1", 3, newer.incarnation);
  ASSERT_EQ(tables.size(), 2U);
  EXPECT_EQ(tables[1].first_id, 1U);
  EXPECT_EQ(tables[1].delta, batch.tables[1].delta);
  EXPECT_TRUE(store_->tables("u1", 4, newer.incarnation).empty());
}

TEST_F(Store, LogIsReportsAndInputsByPosWithNaNAndInfKept) {
  engine::CommitBatch batch;
  auto report = report_row(stream_, 1, 2, 7, report_of({{0}}));
  report.loss = kNan;
  report.grad_norm = std::numeric_limits<double>::infinity();
  report.retrospective = true;
  batch.reports = {report_row(stream_, 2, 4, 8), report};
  batch.reports[0].scalers = {scaler_row(2, 8, kNan), scaler_row(0, 1, 1, 5)};
  batch.inputs = {{"u1", 3, "third"}, {"u1", 1, std::string("\0first", 6)}};
  store_->commit(batch);
  reopen();
  const auto log = read_all(*store_, "u1");
  ASSERT_EQ(log.size(), 4U);
  EXPECT_EQ(log[0].input->payload, std::string("\0first", 6));
  ASSERT_TRUE(log[1].report);
  EXPECT_EQ(log[1].report->run_uid, "u1");
  EXPECT_EQ(log[1].report->rank, 3U);
  EXPECT_EQ(log[1].report->incarnation, stream_.incarnation);
  EXPECT_EQ(log[1].report->attempt, 7U);
  EXPECT_EQ(log[1].report->payload, report.payload);
  EXPECT_TRUE(log[1].report->retrospective);
  ASSERT_TRUE(log[1].report->loss);
  EXPECT_TRUE(std::isnan(*log[1].report->loss));
  EXPECT_TRUE(std::isinf(*log[1].report->grad_norm));
  EXPECT_FALSE(log[1].report->lr);
  EXPECT_EQ(log[2].input->pos, 3U);
  EXPECT_EQ(log[3].report->seq, 2U);
  EXPECT_FALSE(log[3].report->loss);
  EXPECT_TRUE(log[1].report->scalers.empty());
  ASSERT_EQ(log[3].report->scalers.size(), 2U);
  EXPECT_EQ(log[3].report->scalers[0].outcome, 2);
  EXPECT_EQ(log[3].report->scalers[0].growth_tracker, 7);
  EXPECT_TRUE(std::isnan(*log[3].report->scalers[0].scale_after));
  EXPECT_EQ(log[3].report->scalers[1].scaler, 5U);
  EXPECT_EQ(read_all(*store_, "u1", 3).size(), 1U);
  EXPECT_TRUE(read_all(*store_, "nobody").empty());
}

TEST_F(Store, LogLongerThanAPageComesWholeAndMayUseTheStoreMeanwhile) {
  engine::CommitBatch batch;
  for (std::uint64_t i = 1; i <= 1500; ++i) {
    if (i % 3 == 0) {
      batch.inputs.push_back({"u1", i, "input"});
    } else {
      batch.reports.push_back(report_row(stream_, i, i, i));
    }
  }
  store_->commit(batch);
  std::uint64_t expected = 1;
  store_->read_log("u1", 0, [&](const auto& entry) {
    EXPECT_EQ(entry.report ? entry.report->pos : entry.input->pos, expected++);
    if (expected % 500 == 0) {
      EXPECT_TRUE(store_->find_run("u1"));
    }
  });
  EXPECT_EQ(expected, 1501U);
}

TEST_F(Store, LogOfOneKindComesWholeToo) {
  engine::CommitBatch batch;
  for (std::uint64_t i = 1; i <= 1500; ++i) batch.reports.push_back(report_row(stream_, i, i, i));
  for (std::uint64_t i = 1501; i <= 3000; ++i) batch.inputs.push_back({"u1", i, "input"});
  store_->commit(batch);
  std::uint64_t expected = 1;
  store_->read_log("u1", 0, [&](const auto& entry) {
    EXPECT_EQ(entry.report ? entry.report->pos : entry.input->pos, expected);
    ++expected;
  });
  EXPECT_EQ(expected, 3001U);
}

TEST_F(Store, RepeatedReportsAndInputsAreIgnored) {
  engine::CommitBatch batch;
  batch.reports = {report_row(stream_, 1, 1, 1)};
  batch.inputs = {{"u1", 2, "first"}};
  store_->commit(batch);
  auto repeat = report_row(stream_, 1, 9, 1);
  repeat.scalers = {scaler_row(2, 4, 2)};
  batch.reports = {repeat};
  store_->commit(batch);
  const auto log = read_all(*store_, "u1");
  ASSERT_EQ(log.size(), 2U);
  EXPECT_EQ(log[0].report->pos, 1U);
}

TEST_F(Store, ATakenPosIsAMistakeThatLosesNothingInSilence) {
  engine::CommitBatch batch;
  batch.reports = {report_row(stream_, 1, 1, 1)};
  store_->commit(batch);
  batch.reports = {report_row(stream_, 2, 1, 2)};
  EXPECT_THROW(store_->commit(batch), engine::StoreError);
}

// Where there are more than are loaded at a start.
TEST_F(Store, SilencesThatLastLongestAreReadFirst) {
  engine::CommitBatch batch;
  for (std::int64_t i = 1; i <= 3; ++i) batch.silences.push_back({"s" + std::to_string(i), i * 1000, "silence"});
  store_->commit(batch);
  const auto rows = store_->silences(0, 2);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].id, "s3");
  EXPECT_EQ(rows[1].id, "s2");
}

TEST_F(Store, AFailedCommitChangesNothing) {
  engine::CommitBatch batch;
  batch.runs = {run_row("u2", "beta")};
  batch.incarnations = {incarnation_row("u2", 0, 1)};
  batch.reports = {report_row(batch.incarnations[0], 1, 1, 1)};
  batch.inputs = {{"unknown", 1, "x"}};
  try {
    store_->commit(batch);
    FAIL() << "a row of an unknown run was taken";
  } catch (const engine::StoreError& error) {
    EXPECT_FALSE(error.retryable);
    EXPECT_THAT(error.what(), HasSubstr("unknown"));
  }
  EXPECT_FALSE(store_->find_run("u2"));
  // Ids that were rolled back must not be remembered.
  batch.runs = {run_row("u3", "gamma")};
  batch.incarnations = {incarnation_row("u3", 0, 1)};
  batch.reports.clear();
  batch.inputs.clear();
  store_->commit(batch);
  engine::CommitBatch stale;
  stale.inputs = {{"u2", 1, "x"}};
  EXPECT_THROW(store_->commit(stale), engine::StoreError);
  EXPECT_TRUE(read_all(*store_, "u3").empty());
}

TEST_F(Store, SnapshotsReplaceOlderOnesOnly) {
  engine::CommitBatch batch;
  batch.snapshots = {{"u1", 10, "old"}, {"u1", 20, "new"}, {"u1", 15, "late"}};
  store_->commit(batch);
  reopen();
  const auto snapshot = store_->newest_snapshot("u1");
  ASSERT_TRUE(snapshot);
  EXPECT_EQ(snapshot->pos, 20U);
  EXPECT_EQ(snapshot->state, "new");
  EXPECT_FALSE(store_->newest_snapshot("u2"));
}

engine::AlertRow alert(const std::string& id, std::int32_t severity, std::int64_t fired_ms,
                       std::int32_t state = v1::ALERT_STATE_FIRING) {
  return {id, "u1", "Rule", severity, state, fired_ms, fired_ms, "blob"};
}

TEST_F(Store, AlertsAreListedWorstFirstThenNewestAndPaged) {
  engine::CommitBatch batch;
  batch.alerts = {alert("a", 2, 10), alert("b", 3, 5), alert("c", 2, 20), alert("d", 2, 20),
                  alert("e", 3, 1, v1::ALERT_STATE_RESOLVED)};
  batch.alerts[3].run_uid = "u2";
  store_->commit(batch);
  const auto ids = [](const std::vector<engine::AlertRow>& rows) {
    std::string all;
    for (const auto& row : rows) all += row.id;
    return all;
  };
  EXPECT_EQ(ids(store_->list({}, std::nullopt, 10)), "becda");
  std::string paged;
  std::optional<engine::AlertReader::Cursor> after;
  for (;;) {
    const auto page = store_->list({}, after, 2);
    if (page.empty()) break;
    paged += ids(page) + "|";
    after = {page.back().severity, page.back().fired_ms, page.back().id};
  }
  EXPECT_EQ(paged, "be|cd|a|");
  EXPECT_EQ(ids(store_->list({"u1", {v1::ALERT_STATE_FIRING}, 0}, std::nullopt, 10)), "bca");
  EXPECT_EQ(ids(store_->list({std::nullopt, {v1::ALERT_STATE_RESOLVED}, 0}, std::nullopt, 10)), "e");
  EXPECT_EQ(ids(store_->list({std::nullopt, {}, 3}, std::nullopt, 10)), "be");
  EXPECT_EQ(ids(store_->open_alerts(10)), "bacd");
  ASSERT_TRUE(store_->find("c"));
  EXPECT_EQ(store_->find("c")->fired_ms, 20);
  EXPECT_FALSE(store_->find("z"));
}

// It comes back with another server's copy, under the same alerts.
TEST_F(Store, ARunThatIsRemovedForAnothersCopyStillOwesItsPages) {
  engine::CommitBatch batch;
  batch.runs = {{.run_uid = "u7", .name = "moves", .overview = {}}};
  batch.alerts = {{"u7/f", "u7", "Rule", 3, v1::ALERT_STATE_RESOLVED, 20, 1, "bytes"}};
  batch.outbox = {{"u7/f/resolved", "hook", "u7/f", "resolved", 100, "blob"}};
  store_->commit(batch);
  store_->remove_run("u7");
  EXPECT_FALSE(store_->find_run("u7"));
  EXPECT_FALSE(store_->find("u7/f"));
  ASSERT_EQ(store_->due_outbox(100, 10).size(), 1U);
  EXPECT_EQ(store_->due_outbox(100, 10).at(0).row.key, "u7/f/resolved");
}

TEST_F(Store, OutboxTakesEachKeyAndSinkOnceAndFollowsItsUpdates) {
  engine::CommitBatch batch;
  batch.outbox = {{"a/firing", "hook", "a", "firing", 100, "blob"}, {"a/firing", "am", "a", "firing", 100, "blob"}};
  store_->commit(batch);
  batch.outbox = {{"a/firing", "hook", "a", "firing", 999, "folded twice"}};
  store_->commit(batch);
  auto due = store_->due_outbox(100, 10);
  ASSERT_EQ(due.size(), 2U);
  EXPECT_EQ(due[0].row.sink, "hook");
  EXPECT_EQ(due[0].row.alert, "blob");
  EXPECT_EQ(due[0].row.created_ms, 100);

  engine::CommitBatch outcome;
  outcome.outbox_updates = {{"a/firing", "hook", false, 1, 5000, "connection refused"}, {"a/firing", "am", true, 1, 0, ""}};
  store_->commit(outcome);
  reopen();
  EXPECT_TRUE(store_->due_outbox(4999, 10).empty());
  EXPECT_EQ(store_->next_outbox_due_ms(), 5000);
  due = store_->due_outbox(5000, 10);
  ASSERT_EQ(due.size(), 1U);
  EXPECT_EQ(due[0].tries, 1U);
  const auto deliveries = store_->deliveries("a");
  ASSERT_EQ(deliveries.size(), 2U);
  EXPECT_EQ(deliveries[0].last_error(), "connection refused");
  EXPECT_FALSE(deliveries[0].delivered());
  EXPECT_TRUE(deliveries[1].delivered());
  outcome.outbox_updates = {{"a/firing", "hook", true, 2, 0, ""}, {"a/firing", "hook", false, 2, 7000, "late news"}};
  store_->commit(outcome);
  EXPECT_FALSE(store_->next_outbox_due_ms());
}

TEST_F(Store, AFullDiskIsRetryableAndTheNextCommitGoesOn) {
  // A limit on the size of files stands for the full disk.
  const auto wal = std::filesystem::file_size(dir_.path / "history.db-wal");
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = wal + 65536;
  engine::CommitBatch batch;
  batch.reports = {report_row(stream_, 1, 1, 1)};
  batch.reports[0].payload = std::string(std::size_t{4} << 20, 'x');
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  bool retryable = false;
  std::string message;
  try {
    store_->commit(batch);
  } catch (const engine::StoreError& error) {
    retryable = error.retryable;
    message = error.what();
  }
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, SIG_DFL);
  EXPECT_TRUE(retryable) << message;
  EXPECT_THAT(message, HasSubstr("history.db"));
  EXPECT_EQ(count_reports(*store_, "u1"), 0U);
  store_->commit(batch);
  EXPECT_EQ(count_reports(*store_, "u1"), 1U);
}

TEST_F(Store, ReadersSeeWholeCommitsWhileOthersAreWritten) {
  std::atomic<bool> stop{false};
  std::atomic<int> torn{0};
  std::vector<std::thread> readers;
  readers.reserve(6);
  for (int i = 0; i < 6; ++i) {
    readers.emplace_back([&] {
      while (!stop) {
        // Each commit brings a report and an input: a log that ends with a report alone was cut in a commit.
        std::size_t entries = 0;
        store_->read_log("u1", 0, [&](const auto&) { ++entries; });
        if (entries % 2 != 0) ++torn;
      }
    });
  }
  for (std::uint64_t i = 1; i <= 60; ++i) {
    engine::CommitBatch batch;
    batch.reports = {report_row(stream_, i, 2 * i - 1, i)};
    batch.inputs = {{"u1", 2 * i, "input"}};
    store_->commit(batch);
  }
  stop = true;
  for (auto& reader : readers) reader.join();
  EXPECT_EQ(torn, 0);
  EXPECT_EQ(count_reports(*store_, "u1"), 60U);
}

}  // namespace
}  // namespace scalewatch::history
