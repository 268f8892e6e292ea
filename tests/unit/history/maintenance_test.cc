// A data folder looked after by hand: a copy made while the store writes, damage found and repaired.
#include <gmock/gmock.h>

#include <fstream>
#include <set>

#include "server/history/history_api.h"
#include "server/history/keys.h"
#include "server/history/maintenance.h"
#include "tests/unit/history/random_reports.h"

namespace scalewatch::history {
namespace {

using ::testing::AllOf;
using ::testing::Field;
using ::testing::HasSubstr;

constexpr std::uint32_t kTensors = 140;
constexpr std::uint64_t kReports = 300;  // two stretches and some rows; the second one's reports are still there as received

bool go_on(double) {
  return true;
}

class Maintenance : public ::testing::Test {
 protected:
  Maintenance() {
    StoreOptions options;
    options.compaction.thread = false;
    store_ = SqliteStore::open(folder_.path, options);
    engine::CommitBatch batch;
    batch.runs = {run_row("u1", "alpha")};
    batch.incarnations = {stream_};
    std::vector<Tensor> tensors;
    for (std::uint32_t i = 0; i < kTensors; ++i) tensors.push_back({"t" + std::to_string(i), v1::ROLE_GRADIENT, i, "", 1000});
    batch.tables = {table_row(stream_, tensors)};
    store_->commit(batch);
    add(kReports);
    store_->compactor().run_now(false);
  }
  void add(std::uint64_t reports) {
    engine::CommitBatch batch;
    for (std::uint64_t i = 0; i < reports; ++i) {
      ++seq_;
      batch.reports.push_back(report_row(stream_, seq_, seq_, seq_, random_report(random_, seq_, kTensors)));
    }
    store_->commit(batch);
  }
  // On the file itself, with nobody else at it.
  void damage(const std::string& sql) {
    store_.reset();
    Connection(path(folder_), SQLITE_OPEN_READWRITE).execute(sql.c_str());
  }
  // Faults that looking finds, and one when it can't.
  std::uint64_t verify_or_fail() {
    try {
      return verify_folder(folder_.path, false, go_on).faults_found;
    } catch (const engine::StoreError&) {
      return 1;
    }
  }
  static std::set<std::string> names(const std::filesystem::path& folder) {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) names.insert(entry.path().filename().string());
    return names;
  }
  static std::string path(const TempDir& folder) { return (folder.path / "history.db").string(); }
  std::string frames(std::int64_t number, std::int64_t block) {
    Connection file(path(folder_), SQLITE_OPEN_READONLY);
    Query query(file, "SELECT frames FROM chunks WHERE id = ?", chunk_key(1, number, block));
    return query.step() ? query.bytes(0) : "none";
  }
  static std::string chunk(std::int64_t number, std::int64_t block) { return std::to_string(chunk_key(1, number, block)); }

  TempDir folder_;
  engine::IncarnationRow stream_ = incarnation_row("u1", 0, 1);
  std::unique_ptr<SqliteStore> store_;
  std::mt19937 random_{11};
  std::uint64_t seq_ = 0;
};

TEST_F(Maintenance, ACopyIsOfOneMomentWhileTheStoreGoesOnWriting) {
  TempDir elsewhere;
  const auto to = elsewhere.path / "history.db";
  bool written = false;
  const auto size = back_up(folder_.path, to, [&](double) {
    if (!std::exchange(written, true)) add(40);  // not held up by the copy, and not in it
    return true;
  });
  EXPECT_TRUE(written);
  EXPECT_EQ(size, std::filesystem::file_size(to));
  EXPECT_EQ(folder_stats(folder_.path).reports, kReports + 40);
  const auto copied = verify_folder(elsewhere.path, false, go_on);
  EXPECT_EQ(copied.reports, kReports);
  EXPECT_EQ(copied.faults_found, 0U);
  EXPECT_NE(SqliteStore::open(elsewhere.path), nullptr);
  EXPECT_THROW(back_up(folder_.path, to, go_on), engine::StoreError);
  EXPECT_THROW(back_up(folder_.path, elsewhere.path / "other", [](double) { return false; }), engine::StoreError);
  EXPECT_FALSE(std::filesystem::exists(elsewhere.path / "other"));
  EXPECT_EQ(names(elsewhere.path), (std::set<std::string>{"ballast", "history.db", "history.mark", "scalewatchd.lock"}));
}

TEST_F(Maintenance, ACopyTouchesNoFileButItsOwn) {
  TempDir elsewhere;
  const auto write = [&](const char* name) { std::ofstream(elsewhere.path / name) << "mine"; };
  const auto to = elsewhere.path / "copy";
  write("copy.part");
  back_up(folder_.path, to, go_on);
  EXPECT_EQ(names(elsewhere.path), (std::set<std::string>{"copy", "copy.part"}));
  EXPECT_EQ(std::filesystem::file_size(elsewhere.path / "copy.part"), 4U);
  EXPECT_EQ(std::filesystem::status(to).permissions(), std::filesystem::perms(0600));
  // One that is made meanwhile stays.
  EXPECT_THROW(back_up(folder_.path, elsewhere.path / "late",
                       [&](double) {
                         write("late");
                         return true;
                       }),
               engine::StoreError);
  EXPECT_EQ(std::filesystem::file_size(elsewhere.path / "late"), 4U);
  // A link to nothing is there too.
  std::filesystem::create_symlink(elsewhere.path / "nothing", elsewhere.path / "link");
  EXPECT_THROW(back_up(folder_.path, elsewhere.path / "link", go_on), engine::StoreError);
  EXPECT_EQ(names(elsewhere.path), (std::set<std::string>{"copy", "copy.part", "late", "link"}));
}

TEST_F(Maintenance, OfTwoCopiesToOneFileTheFirstThatIsWholeStays) {
  TempDir elsewhere;
  const auto to = elsewhere.path / "history.db";
  const auto stop = [](double) { return false; };
  bool started = false;
  const auto start_another_that_stops = [&](double) {
    if (!std::exchange(started, true)) {
      EXPECT_THROW(back_up(folder_.path, to, stop), engine::StoreError);
    }
    return true;
  };
  back_up(folder_.path, to, start_another_that_stops);
  std::filesystem::remove(to);
  started = false;
  const auto start_another = [&](double) {
    if (!std::exchange(started, true)) back_up(folder_.path, to, go_on);
    return true;
  };
  EXPECT_THROW(back_up(folder_.path, to, start_another), engine::StoreError);
  EXPECT_EQ(names(elsewhere.path), (std::set<std::string>{"history.db"}));
  EXPECT_EQ(verify_folder(elsewhere.path, false, go_on).faults_found, 0U);
}

TEST_F(Maintenance, AGoodHistoryVerifiesBesideItsServer) {
  const auto found = verify_folder(folder_.path, false, go_on);
  EXPECT_EQ(found.faults_found, 0U);
  EXPECT_EQ(found.stretches, 2U);
  EXPECT_EQ(found.chunks, 6U);
  EXPECT_GT(found.records, std::uint64_t{200} * kTensors / 2);
  // Repair keeps out of a server's way.
  EXPECT_THROW(verify_folder(folder_.path, true, go_on), engine::StoreError);
}

TEST_F(Maintenance, WhatCanBeMadeAnewIs) {
  const auto before = frames(1, 0);
  const auto flip = [](const std::string& blob, const char* at) {
    return "substr(" + blob + ", 1, " + at + ") || x'55' || substr(" + blob + ", " + at + " + 2)";
  };
  damage("UPDATE chunks SET frames = CAST(" + flip("frames", "3000") + " AS BLOB) WHERE id = " + chunk(1, 0) +
         ";UPDATE summaries SET tensors = CAST(" + flip("tensors", "200") + " AS BLOB) WHERE id = " +
         std::to_string(summary_key(1, 1, 0)) + ";UPDATE stretches SET attempts = x'00' WHERE number = 0");
  EXPECT_EQ(verify_folder(folder_.path, false, go_on).faults_left, 3U);
  const auto found = verify_folder(folder_.path, true, go_on);
  EXPECT_EQ(found.faults_found, 3U);
  EXPECT_EQ(found.faults_left, 0U);
  EXPECT_THAT(found.faults,
              ::testing::UnorderedElementsAre(AllOf(Field(&Fault::what, HasSubstr("tensors 0 to 63: the chunk is damaged")),
                                                    Field(&Fault::repair, HasSubstr("from the reports"))),
                                              AllOf(Field(&Fault::what, HasSubstr("tensors 64 to 127: the summary")),
                                                    Field(&Fault::repair, HasSubstr("from the chunk"))),
                                              Field(&Fault::what, HasSubstr("list of attempts"))));
  EXPECT_EQ(frames(1, 0), before);
  EXPECT_EQ(verify_folder(folder_.path, false, go_on).faults_found, 0U);
}

TEST_F(Maintenance, AChunkThatIsLostLeavesItsSummary) {
  damage("UPDATE chunks SET frames = substr(frames, 1, 5000) WHERE id = " + chunk(0, 1));
  const auto found = verify_folder(folder_.path, true, go_on);
  ASSERT_EQ(found.faults.size(), 1U);
  EXPECT_THAT(found.faults[0].repair, HasSubstr("its summary stands for it"));
  EXPECT_EQ(verify_folder(folder_.path, false, go_on).faults_found, 0U);
  // Readers take the summary; the neighbours are as they were.
  store_ = SqliteStore::open(folder_.path);
  const auto api = make_history_api(*store_);
  v1::GetTensorHistoryRequest request;
  request.set_run("alpha");
  request.set_tensor("t70");
  v1::GetTensorHistoryResponse response;
  const auto status = api->get_tensor_history(request, response);
  ASSERT_TRUE(status.ok()) << status.message;
  EXPECT_GT(response.points(0).attempts(), 30U);
  request.set_tensor("t10");
  ASSERT_TRUE(api->get_tensor_history(request, response).ok());
  EXPECT_EQ(response.points(0).attempts(), 1U);
}

TEST_F(Maintenance, DetailThatIsRemovedIsNoFaultAfterwards) {
  damage("UPDATE stretches SET detail = x'ff' WHERE number = 0");
  const auto found = verify_folder(folder_.path, true, go_on);
  ASSERT_EQ(found.faults.size(), 1U);
  EXPECT_THAT(found.faults[0].repair, HasSubstr("removed"));
  EXPECT_EQ(verify_folder(folder_.path, false, go_on).faults_found, 0U);
  EXPECT_EQ(verify_folder(folder_.path, true, go_on).faults_found, 0U);
}

TEST_F(Maintenance, MessagesThatCannotBeReadAreTold) {
  engine::CommitBatch batch;
  batch.alerts.push_back({"a1", "u1", "Rule", v1::SEVERITY_INFO, v1::ALERT_STATE_FIRING, 10, 10, ""});
  store_->commit(batch);
  damage(
      "UPDATE runs SET overview = x'ff'; UPDATE streams SET hello = x'ff'; UPDATE alerts SET alert = x'ff';"
      "INSERT INTO silences VALUES ('s1', 10, x'ff')");
  const auto before = frames(0, 2);
  const auto told = [](const char* what) { return Field(&Fault::what, HasSubstr(what)); };
  EXPECT_THAT(
      verify_folder(folder_.path, false, go_on).faults,
      ::testing::UnorderedElementsAre(told("run alpha"), told("hello of stream 1"), told("alert a1"), told("silence s1")));
  // Chunks of which the tensors aren't known any more stay.
  damage("UPDATE table_deltas SET delta = x'ff'");
  const auto found = verify_folder(folder_.path, true, go_on);
  EXPECT_EQ(found.faults_left, 5U);
  EXPECT_THAT(found.faults, ::testing::Contains(told("table of stream 1, version 1")));
  EXPECT_EQ(frames(0, 2), before);
}

// What SQLite itself can't read: the rows around it are saved, and what was there is kept.
TEST_F(Maintenance, PagesThatAreGoneCostTheirRows) {
  damage("PRAGMA wal_checkpoint(TRUNCATE)");
  const auto whole = folder_stats(folder_.path);
  std::fstream file(path(folder_), std::ios::in | std::ios::out | std::ios::binary);
  const auto pages = std::filesystem::file_size(path(folder_)) / 16384;
  std::mt19937 random(2);
  for (int i = 0; i < 3; ++i) {
    file.seekp(static_cast<std::streamoff>(16384 * (10 + random() % (pages - 10))));
    file.write(std::string(16384, '\x5a').data(), 16384);
  }
  file.close();
  EXPECT_GT(verify_or_fail(), 0U);
  const auto found = verify_folder(folder_.path, true, go_on);
  EXPECT_THAT(found.faults, ::testing::Contains(Field(&Fault::repair, HasSubstr("history.db.damaged-"))));
  const auto saved = folder_stats(folder_.path);
  EXPECT_EQ(saved.runs, whole.runs);
  EXPECT_GE(saved.reports, whole.reports / 3);
  EXPECT_EQ(verify_folder(folder_.path, true, go_on).faults_found, verify_folder(folder_.path, true, go_on).faults_left);
  EXPECT_NE(SqliteStore::open(folder_.path), nullptr);
}

// Wherever the damage shows first, the error says what to do; so does the look at it.
TEST_F(Maintenance, ARunWhoseOwnRowIsLostIsMadeAnew) {
  engine::CommitBatch batch;
  v1::Alert alert;
  alert.set_run("alpha");
  batch.alerts = {{"u1/a", "u1", "Rule", 1, v1::ALERT_STATE_FIRING, 1, 1, alert.SerializeAsString()}};
  v1::Hello hello;
  hello.set_run("alpha");
  stream_.hello = hello.SerializeAsString();
  batch.incarnations = {stream_};
  store_->commit(batch);
  const auto reports = folder_stats(folder_.path).reports;
  damage("DELETE FROM runs");
  const auto lost = HasSubstr("run alpha: its own row is not there");
  EXPECT_THAT(verify_folder(folder_.path, false, go_on).faults, ::testing::Contains(Field(&Fault::what, lost)));
  EXPECT_THAT(verify_folder(folder_.path, true, go_on).faults,
              ::testing::Contains(AllOf(Field(&Fault::what, lost), Field(&Fault::repair, Not(testing::IsEmpty())))));
  EXPECT_EQ(verify_folder(folder_.path, false, go_on).faults_found, 0U);
  store_ = SqliteStore::open(folder_.path);
  const auto found = store_->find_run("alpha");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->run_uid, "u1") << "as its alerts know it";
  EXPECT_EQ(found->status, v1::RUN_STATUS_LOST);
  EXPECT_EQ(folder_stats(folder_.path).reports, reports);
}

// Or the next run, client start or report would take them for its own, and what was acked of it would not be stored.
TEST_F(Maintenance, RowsOfWhatIsNotThereAreRemoved) {
  for (const char* lost : {"DELETE FROM streams", "DELETE FROM reports"}) {
    damage(lost);
    const auto found = verify_folder(folder_.path, false, go_on);
    EXPECT_THAT(found.faults, ::testing::Contains(Field(&Fault::what, HasSubstr("that are not there")))) << lost;
    EXPECT_GT(found.faults_left, 0U);
    verify_folder(folder_.path, true, go_on);
    EXPECT_EQ(verify_folder(folder_.path, false, go_on).faults_found, 0U) << lost;
    store_ = SqliteStore::open(folder_.path);
    stream_ = incarnation_row("u2", 0, static_cast<std::uint8_t>(seq_ % 200));
    engine::CommitBatch batch;
    batch.runs = {run_row("u2", "beta")};
    batch.incarnations = {stream_};
    batch.tables = {table_row(stream_, {{"t0", v1::ROLE_GRADIENT, 0, "", 1000}})};
    store_->commit(batch);
    const auto before = folder_stats(folder_.path).reports;
    add(5);
    EXPECT_EQ(folder_stats(folder_.path).reports, before + 5) << lost;
    EXPECT_EQ(store_->tables("u2", 0, stream_.incarnation).size(), 1U) << lost;
  }
}

TEST_F(Maintenance, DamageIsToldWithWhatToDo) {
  damage("PRAGMA wal_checkpoint(TRUNCATE)");
  store_.reset();
  std::fstream file(path(folder_), std::ios::in | std::ios::out | std::ios::binary);
  const auto size = std::filesystem::file_size(path(folder_));
  file.seekp(16384);  // all but what names the tables
  file.write(std::string(size - 16384, '\x5a').data(), static_cast<std::streamsize>(size - 16384));
  file.close();
  const std::string hint = "run: scalewatch admin --data-dir " + folder_.path.string() + " verify --repair";
  EXPECT_THAT([&] { verify_folder(folder_.path, false, go_on); },
              ::testing::ThrowsMessage<engine::StoreError>(::testing::AllOf(HasSubstr("malformed"), HasSubstr(hint))));
  EXPECT_THAT([&] { SqliteStore::open(folder_.path)->find_run("alpha"); },
              ::testing::ThrowsMessage<engine::StoreError>(::testing::AllOf(HasSubstr("malformed"), HasSubstr(hint))));
}

TEST_F(Maintenance, AnotherVersionsHistoryIsToldFromDamage) {
  damage("PRAGMA user_version = 99");
  EXPECT_THAT([&] { verify_folder(folder_.path, false, go_on); },
              ::testing::ThrowsMessage<engine::StoreError>(HasSubstr("schema version 99 is of a newer scalewatchd")));
  damage("PRAGMA user_version = 1");
  EXPECT_THAT([&] { verify_folder(folder_.path, false, go_on); },
              ::testing::ThrowsMessage<engine::StoreError>(HasSubstr("schema version 1 is of an older scalewatchd")));
}

TEST_F(Maintenance, AFileThatIsNoDatabaseIsKeptAndOneMadeAnew) {
  store_.reset();
  std::ofstream(path(folder_), std::ios::binary | std::ios::trunc) << std::string(50'000, 'x');
  try {
    SqliteStore::open(folder_.path);
    ADD_FAILURE();
  } catch (const engine::StoreError& error) {
    EXPECT_THAT(error.what(), HasSubstr("run: scalewatch admin --data-dir " + folder_.path.string() + " verify --repair"));
  }
  EXPECT_GT(verify_folder(folder_.path, true, go_on).faults_left, 0U);
  EXPECT_EQ(folder_stats(folder_.path).reports, 0U);
}

TEST_F(Maintenance, CompactingLeavesNoReportAsReceivedButThoseWithFindings) {
  store_.reset();
  const auto result = compact_folder(folder_.path);
  EXPECT_LT(result.bytes_after, result.bytes_before);
  const auto stats = folder_stats(folder_.path);
  EXPECT_EQ(stats.reports, kReports);
  EXPECT_EQ(stats.in_chunks, kReports);
  EXPECT_LE(stats.payloads, 24U);
}

}  // namespace
}  // namespace scalewatch::history
