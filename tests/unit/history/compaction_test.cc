// Reports made chunks of: nothing is lost or doubled, whatever interrupts, and every answer stays the same.
#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>

#include <cstdio>
#include <fstream>

#include "server/history/feed_state.h"
#include "server/history/history_api.h"
#include "server/history/keys.h"
#include "server/history/schema.h"
#include "tests/unit/history/questions.h"

namespace scalewatch::history {
namespace {

using ::testing::HasSubstr;

StoreOptions by_hand() {
  StoreOptions options;
  options.compaction.thread = false;
  options.read_transaction = std::chrono::minutes(5);  // a busy machine must not change answers
  return options;
}

std::string answers(SqliteStore& store) {
  ApiLimits limits;
  limits.read_time = std::chrono::minutes(5);
  return history::answers(*make_history_api(store, limits));
}

std::int64_t count(SqliteStore& store, const char* table) {
  ReadPool::Lease lease(store.readers());
  return (*lease).scalar((std::string("SELECT count(*) FROM ") + table).c_str());
}

TEST(Compaction, AnswersStayTheSameWhereverTheCutIs) {
  for (const std::uint32_t seed : {1U, 2U}) {
    const auto batches = seed == 1 ? one_rank(seed, 400) : ranks_and_restarts(seed);
    TempDir plain_dir;
    auto options = by_hand();
    options.compaction.enabled = false;
    const auto plain = SqliteStore::open(plain_dir.path, options);
    for (const auto& batch : batches) plain->commit(batch);
    const std::string expected = answers(*plain);
    EXPECT_EQ(count(*plain, "stretches"), 0);

    for (const std::size_t cut : {std::size_t{0}, std::size_t{13}, batches.size()}) {
      TempDir dir;
      const auto store = SqliteStore::open(dir.path, by_hand());
      for (std::size_t i = 0; i < batches.size(); ++i) {
        if (i == cut) store->compactor().run_now(true);
        store->commit(batches[i]);
        if (i > cut) store->compactor().run_now(false);
      }
      if (cut == batches.size()) store->compactor().run_now(true);
      const std::string when = "seed " + std::to_string(seed) + ", cut after " + std::to_string(cut) + " commits";
      EXPECT_GT(count(*store, "stretches"), cut == 0 ? 1 : 2) << when;
      expect_same(expected, answers(*store), when);
    }
  }
}

std::string canonical(const std::string& payload) {
  v1::Report report;
  EXPECT_TRUE(report.ParseFromString(payload));
  for (auto& block : *report.mutable_blocks()) {
    // A NaN is never equal to itself.
    for (auto* column : {block.mutable_min(), block.mutable_max(), block.mutable_absmin_nonzero()}) {
      for (auto& value : *column) value = std::isnan(value) ? -1e30F : value;
    }
  }
  return report.DebugString();
}

TEST(Compaction, TheLogComesBackAsItWasTakenIn) {
  for (const auto& batches : {one_rank(5, 300), ranks_and_restarts(6)}) {
    TempDir dir;
    const auto store = SqliteStore::open(dir.path, by_hand());
    for (const auto& batch : batches) store->commit(batch);
    const auto before = read_all(*store, "u1");
    store->compactor().run_now(true);
    EXPECT_LT(count(*store, "payloads"), static_cast<std::int64_t>(before.size()) / 2);
    const auto after = read_all(*store, "u1");
    ASSERT_EQ(after.size(), before.size());
    for (std::size_t i = 0; i < after.size(); ++i) {
      ASSERT_EQ(after[i].report->pos, before[i].report->pos);
      ASSERT_EQ(after[i].report->scalers.size(), before[i].report->scalers.size());
      ASSERT_EQ(canonical(after[i].report->payload), canonical(before[i].report->payload)) << "pos " << before[i].report->pos;
    }
  }
}

// As a kill between any two transactions leaves it: the writer stops after so many and a new one goes on.
TEST(Compaction, AKillAtAnyPointLosesAndDoublesNothing) {
  const auto batches = one_rank(8, 260);
  TempDir plain_dir;
  auto off = by_hand();
  off.compaction.enabled = false;
  const auto plain = SqliteStore::open(plain_dir.path, off);
  for (const auto& batch : batches) plain->commit(batch);
  const std::string expected = answers(*plain);

  for (int allowed = 0; allowed < 10; allowed += allowed < 5 ? 1 : 2) {
    TempDir dir;
    auto store = SqliteStore::open(dir.path, off);
    for (const auto& batch : batches) store->commit(batch);
    int writes = 0;
    {
      Compactor dies((dir.path / "history.db").string(), by_hand().compaction,
                     [&](WriteClass which, const std::function<void(Connection&)>& work) {
                       if (writes++ == allowed) throw engine::StoreError("killed", true);
                       store->write(which, work);
                     });
      EXPECT_THROW(dies.run_now(true), engine::StoreError);
    }
    store.reset();
    store = SqliteStore::open(dir.path, by_hand());
    store->compactor().run_now(true);
    expect_same(expected, answers(*store), "killed before write " + std::to_string(allowed));
    // Nothing that no stretch names.
    ReadPool::Lease lease(store->readers());
    EXPECT_EQ((*lease).scalar("SELECT count(*) FROM chunks WHERE (id >> 20) NOT IN (SELECT id FROM stretches)"), 0);
    EXPECT_EQ((*lease).scalar("SELECT sum(reports) FROM stretches"), 260);
  }
}

TEST(Compaction, PayloadsThatWaitForTheSharedHistoryStay) {
  const auto batches = one_rank(9, 700);
  for (const bool keep : {false, true}) {
    TempDir dir;
    const auto store = SqliteStore::open(dir.path, by_hand());
    store->compactor().keep_unsent(keep);
    const auto commit = [&](std::size_t from, std::size_t to) {
      for (std::size_t i = from; i < to; ++i) {
        store->commit(batches[i]);
        store->compactor().run_now(false);
      }
    };
    const auto oldest = [&] {
      ReadPool::Lease lease(store->readers());
      return (*lease).scalar(
          "SELECT min(seq) FROM payloads JOIN reports ON reports.id = payloads.id WHERE NOT retrospective AND payloads.id NOT "
          "IN "
          "(SELECT id FROM kept_payloads)");
    };
    commit(0, 30);
    EXPECT_EQ(oldest() < 60, keep);  // the first ones may be kept for what they hold
    FeedState(*store).sent({{"u1", 300}}, {{{"u1", 0, incarnation(1)}, 300}});
    commit(30, batches.size());
    if (keep) {
      EXPECT_GT(oldest(), 300);
      EXPECT_LT(oldest(), 360);
    }
    // Those that are due go when no more are kept, and at the end all do.
    store->compactor().keep_unsent(false);
    store->compactor().run_now(false);
    EXPECT_GT(oldest(), 450);
    store->compactor().run_now(true);
    EXPECT_EQ(count(*store, "payloads") - count(*store, "kept_payloads"), 11);  // retrospective ones
  }
}

TEST(Compaction, NewestAttemptsAndFaultyOnesStayWhole) {
  TempDir dir;
  const auto store = SqliteStore::open(dir.path, by_hand());
  engine::CommitBatch batch;
  const auto stream = incarnation_row("u1", 0, 1);
  batch.runs = {run_row("u1", "alpha")};
  batch.incarnations = {stream};
  batch.tables = {table_row(stream, tensors())};
  for (std::uint64_t i = 1; i <= 600; ++i) {
    batch.reports.push_back(report_row(stream, i, i, i, report_of({{0, 1, i == 40 ? 2U : 0U}})));
  }
  v1::Alert alert;
  alert.mutable_finding()->set_segment(1);
  alert.mutable_finding()->set_first_attempt(77);
  batch.alerts = {{"a", "u1", "Rule", 2, v1::ALERT_STATE_FIRING, 1, 1, alert.SerializeAsString()}};
  store->commit(batch);
  store->compactor().run_now(false);
  ReadPool::Lease lease(store->readers());
  Query kept(*lease, "SELECT attempt FROM reports JOIN payloads ON payloads.id = reports.id ORDER BY attempt");
  std::vector<std::int64_t> attempts;
  while (kept.step()) attempts.push_back(kept.i64(0));
  ASSERT_GT(attempts.size(), 130U);
  EXPECT_LT(attempts.size(), 300U);
  EXPECT_EQ(attempts[0], 40);
  EXPECT_EQ(attempts[1], 77);
  EXPECT_EQ(attempts.back(), 600);
  EXPECT_EQ(attempts[3], attempts[2] + 1);
  EXPECT_EQ((*lease).scalar("SELECT count(*) FROM reports"), 600);
}

// Its write transactions hold up all commits.
TEST(Compaction, AttemptsThatLieFarApartCostNoMoreThanOthers) {
  TempDir dir;
  const auto store = SqliteStore::open(dir.path, by_hand());
  const auto stream = incarnation_row("u1", 0, 1);
  engine::CommitBatch batch;
  batch.runs = {run_row("u1", "alpha")};
  batch.incarnations = {stream};
  batch.tables = {table_row(stream, {{"t0"}})};
  for (std::uint64_t seq = 1; seq <= 200; ++seq) {
    const std::uint64_t attempt = seq <= 70 ? seq : seq << 36;
    batch.reports.push_back(report_row(stream, seq, seq, attempt, report_of({{0, 1}})));
    batch.reports.back().scalers = {scaler_row(1, 2, 2)};
  }
  store->commit(batch);
  store->compactor().run_now(true);
  EXPECT_EQ(count(*store, "stretches"), 2);
  EXPECT_GT(count(*store, "scaler_sums"), 100);
  v1::GetScalerHistoryRequest request;
  request.set_run("alpha");
  request.set_max_points(10);
  v1::GetScalerHistoryResponse response;
  ASSERT_TRUE(make_history_api(*store)->get_scaler_history(request, response).ok());
  std::uint64_t applied = 0;
  for (const auto& point : response.points()) applied += point.applied();
  EXPECT_EQ(applied, 200U);
}

TEST(Compaction, AnOlderFileIsCopiedAndBroughtUpToDate) {
  const auto batches = one_rank(9, 150);
  TempDir dir;
  auto store = SqliteStore::open(dir.path, by_hand());
  for (const auto& batch : batches) store->commit(batch);
  const auto before = read_all(*store, "u1");
  store.reset();
  const std::string file = (dir.path / "history.db").string();
  {
    // Back to what version 1 had.
    Connection old(file, SQLITE_OPEN_READWRITE);
    old.execute(
        "ALTER TABLE reports ADD COLUMN payload BLOB NOT NULL DEFAULT x'';"
        "UPDATE reports SET payload = (SELECT payload FROM payloads WHERE payloads.id = reports.id);"
        "DROP VIEW summary_list; DROP TABLE payloads; DROP TABLE kept_payloads; DROP INDEX reports_retrospective;"
        "DROP TABLE stretches; DROP TABLE chunks; DROP TABLE summaries; DROP TABLE scaler_sums; PRAGMA user_version = 1");
  }
  store = SqliteStore::open(dir.path, by_hand());
  EXPECT_TRUE(std::filesystem::exists(file + ".v1"));
  store->compactor().run_now(true);
  EXPECT_GT(count(*store, "stretches"), 0);
  const auto after = read_all(*store, "u1");
  ASSERT_EQ(after.size(), before.size());
  for (std::size_t i = 0; i < after.size(); ++i) {
    ASSERT_EQ(canonical(after[i].report->payload), canonical(before[i].report->payload));
  }
  Connection copy(file + ".v1", SQLITE_OPEN_READONLY);
  EXPECT_EQ(copy.scalar("PRAGMA user_version"), 1);
  EXPECT_EQ(copy.scalar("SELECT count(*) FROM reports WHERE length(payload) > 0"), static_cast<std::int64_t>(before.size()));
}

// The script was written from FORMAT.md alone and uses nothing but Python's own library.
TEST(Compaction, AReaderWrittenFromTheFormatFindsTheSameRecords) {
  TempDir dir;
  const auto store = SqliteStore::open(dir.path, by_hand());
  for (const auto& batch : one_rank(10, 200)) store->commit(batch);
  store->compactor().run_now(true);
  std::string expected;
  const auto api = make_history_api(*store);
  for (const char* tensor : {"t0", "t69", "t100"}) {
    v1::GetTensorHistoryRequest request;
    request.set_run("alpha");
    request.set_tensor(tensor);
    v1::GetTensorHistoryResponse response;
    ASSERT_TRUE(api->get_tensor_history(request, response).ok());
    for (const auto& point : response.points()) {
      const auto& record = point.record();
      char line[400];
      std::snprintf(line, sizeof line, "%s %llu %llu %llu %llu %.9g %.9g %.17g %.17g %llu %g\n", tensor,
                    static_cast<unsigned long long>(point.first_attempt()), static_cast<unsigned long long>(record.numel()),
                    static_cast<unsigned long long>(record.nan()), static_cast<unsigned long long>(record.pos_inf()),
                    record.has_min() ? static_cast<double>(record.min()) : 0.0,
                    record.has_max() ? static_cast<double>(record.max()) : 0.0, record.sum(), record.sum_sq(),
                    static_cast<unsigned long long>(record.subnormal()), record.measured_under_scale());
      expected += line;
    }
  }
  const std::string out = (dir.path / "out").string();
  const std::string command = std::string("/usr/bin/python3 -B ") + SCALEWATCH_HISTORY_TESTS + "/read_chunks.py " +
                              (dir.path / "history.db").string() + " 0 69 100 > " + out + " 2>&1";
  const int result = std::system(command.c_str());
  std::ifstream file(out);
  const std::string got{std::istreambuf_iterator<char>(file), {}};
  ASSERT_EQ(result, 0) << got;
  // Attempts that a retrospective report filled up are in the answer, not in chunks.
  std::size_t lines = 0;
  std::size_t same = 0;
  std::istringstream in(got);
  for (std::string line; std::getline(in, line); ++lines) same += expected.find(line + "\n") != std::string::npos ? 1 : 0;
  EXPECT_GT(lines, 400U);
  EXPECT_EQ(same, lines) << got.substr(0, 400) << "\nbut\n" << expected.substr(0, 400);
}

TEST(Compaction, ViewsAreReadableWithNothingButSql) {
  TempDir dir;
  const auto store = SqliteStore::open(dir.path, by_hand());
  for (const auto& batch : one_rank(11, 150)) store->commit(batch);
  engine::CommitBatch alerts;
  alerts.alerts = {{"a", "u1", "Rule", 2, v1::ALERT_STATE_FIRING, 1, 1, "blob"}};
  store->commit(alerts);
  store->compactor().run_now(true);
  Connection people((dir.path / "history.db").string(), SQLITE_OPEN_READONLY);
  Query runs(people, "SELECT name, status FROM run_list");
  ASSERT_TRUE(runs.step());
  EXPECT_EQ(runs.bytes(0) + " " + runs.bytes(1), "alpha running");
  Query events(people, "SELECT count(*) FROM scaler_events WHERE run = 'alpha' AND outcome = 'skipped'");
  ASSERT_TRUE(events.step());
  EXPECT_GT(events.i64(0), 5);
  Query listed(people, "SELECT rule, severity, state FROM alert_list");
  ASSERT_TRUE(listed.step());
  EXPECT_EQ(listed.bytes(0) + " " + listed.bytes(1) + " " + listed.bytes(2), "Rule warning firing");
  Query summaries(people,
                  "SELECT run, rank, min(first_attempt), max(last_attempt), sum(records), max(absmax_max), min(min_headroom), "
                  "max(worst_tensor), max(first_tensor_id) FROM summary_list");
  ASSERT_TRUE(summaries.step());
  EXPECT_EQ(summaries.bytes(0), "alpha");
  EXPECT_EQ(summaries.i64(2), people.scalar("SELECT min(attempt) FROM reports"));
  EXPECT_EQ(summaries.i64(3), people.scalar("SELECT max(attempt) FROM reports WHERE NOT retrospective"));
  EXPECT_GT(summaries.i64(4), 150 * 70);
  EXPECT_GT(*summaries.number(5), 0);
  EXPECT_THAT(summaries.bytes(7), HasSubstr("t"));
  EXPECT_EQ(summaries.i64(8), 128);
}

}  // namespace
}  // namespace scalewatch::history
