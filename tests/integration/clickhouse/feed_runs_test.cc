// What a feeder remembers of runs, and for how long. Needs no ClickHouse.
#include "server/history/clickhouse/feed_runs.h"

#include <gtest/gtest.h>

#include "server/history/clickhouse/replicated_seqs.h"
#include "tests/unit/history/fixtures.h"

namespace scalewatch::clickhouse {
namespace {

using std::chrono::minutes;

engine::CommitBatch one_report(const std::string& run_uid) {
  engine::CommitBatch batch;
  batch.runs = {history::run_row(run_uid, run_uid)};
  const auto stream = history::incarnation_row(run_uid, 0, 1);
  batch.incarnations = {stream};
  batch.reports = {history::report_row(stream, 1, 1, 1)};
  return batch;
}

// All of the run's log and its row.
void send(FeedRuns& runs, const std::string& run_uid, FeedRuns::SteadyClock::time_point now) {
  runs.leaves(run_uid);
  runs.stays(run_uid, true, false);
  runs.sent(run_uid, 1, 1);
  bool more = false;
  for (const DueRow& row : runs.due_rows(now, 1, more)) runs.row_sent(row, now);
}

TEST(FeedRuns, QuietOnesAreForgotten) {
  FeedRuns runs(false);
  const auto now = FeedRuns::SteadyClock::now();
  runs.committed(one_report("quiet"));
  send(runs, "quiet", now);
  runs.committed(one_report("waits"));
  runs.forget_quiet(now + minutes(9));
  EXPECT_TRUE(runs.knows("quiet"));
  runs.forget_quiet(now + minutes(11));
  EXPECT_FALSE(runs.knows("quiet"));
  EXPECT_TRUE(runs.knows("waits"));
}

TEST(FeedRuns, WhereRunsAreClaimedThoseThatAreGivenUpAreForgotten) {
  FeedRuns runs(true);
  const auto now = FeedRuns::SteadyClock::now();
  runs.committed(one_report("new"));  // and claimed in a moment
  runs.own("own", "own", 1);
  runs.committed(one_report("own"));
  send(runs, "own", now);
  runs.own("given up", "given up", 1);
  runs.committed(one_report("given up"));
  runs.disown("given up");
  runs.forget_quiet(now + minutes(100));
  EXPECT_TRUE(runs.knows("new"));
  EXPECT_TRUE(runs.knows("own"));
  EXPECT_FALSE(runs.knows("given up"));
  runs.committed(one_report("own"));
  EXPECT_EQ(runs.due(), std::vector<std::string>{"own"});
}

TEST(FeedRuns, AClaimOfARunWithNothingToSendWaitsForNothing) {
  FeedRuns runs(true);
  runs.own("own", "own", 1);
  EXPECT_TRUE(runs.waiting().since);
  runs.leaves("own");
  runs.stays("own", false, false);
  EXPECT_FALSE(runs.waiting().since);
  // Something comes while its log is read.
  runs.own("own", "own", 1);
  runs.leaves("own");
  runs.committed(one_report("own"));
  runs.stays("own", false, false);
  EXPECT_TRUE(runs.waiting().since);
}

TEST(FeedRuns, WhatIsThereOfARunIsKnownAgainOnceItWasForgotten) {
  history::TempDir dir;
  const auto store = history::SqliteStore::open(dir.path);
  store->commit(one_report("u1"));
  history::FeedState state(*store);
  ReplicatedSeqs seqs(state);
  const auto there = [&] { return seqs.of("u1", 0, history::incarnation(1)); };
  EXPECT_EQ(there(), 0U);
  const auto sent = [&](std::uint64_t seq) {
    const std::map<history::FeedState::Stream, std::uint64_t> now{{{"u1", 0, history::incarnation(1)}, seq}};
    state.sent({}, now);
    seqs.sent(now);
  };
  sent(5);
  EXPECT_EQ(there(), 5U);
  seqs.keep_only([](const std::string& run_uid) { return run_uid == "another"; });
  sent(6);
  EXPECT_EQ(there(), 6U);
  state.sent({}, {{{"u1", 0, history::incarnation(1)}, 7}});
  EXPECT_EQ(there(), 6U) << "it reads the store once";
  seqs.forget("u1");
  EXPECT_EQ(there(), 7U);
}

}  // namespace
}  // namespace scalewatch::clickhouse
