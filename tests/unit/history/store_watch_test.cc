// Files that are taken away under an open store, or stand where one cannot be: nothing is taken that would not be there later.
#include <gmock/gmock.h>

#include <fstream>

#include "server/history/maintenance.h"
#include "server/history/store_watch.h"
#include "tests/unit/history/random_reports.h"

namespace scalewatch::history {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::uint32_t kTensors = 20;

class Watched : public ::testing::Test {
 protected:
  Watched() {
    std::filesystem::create_directory(data_);
    open();
    engine::CommitBatch batch;
    batch.runs = {run_row("u1", "alpha")};
    batch.incarnations = {stream_};
    std::vector<Tensor> tensors;
    for (std::uint32_t i = 0; i < kTensors; ++i) tensors.push_back({"t" + std::to_string(i), v1::ROLE_GRADIENT, i, "", 1000});
    batch.tables = {table_row(stream_, tensors)};
    store_->commit(batch);
    add();
  }
  void open() {
    StoreOptions options;
    options.compaction.thread = false;
    options.ballast_bytes = 0;
    store_ = SqliteStore::open(data_, options);
  }
  void add(std::uint64_t reports = 1) {
    engine::CommitBatch batch;
    for (std::uint64_t i = 1; i <= reports; ++i) {
      const std::uint64_t seq = seq_ + i;
      batch.reports.push_back(report_row(stream_, seq, seq, seq, random_report(random_, seq, kTensors)));
    }
    store_->commit(batch);
    seq_ += reports;
  }
  // What a commit says, when it is to be tried again; empty when it is taken.
  std::string refusal() {
    try {
      add();
    } catch (const engine::StoreError& error) {
      EXPECT_TRUE(error.retryable);
      return error.what();
    }
    return "";
  }
  std::string opening() {
    try {
      open();
    } catch (const engine::StoreError& error) {
      return error.what();
    }
    return "";
  }
  std::filesystem::path at(const char* name) const { return data_ / name; }

  TempDir folder_;
  const std::filesystem::path data_ = folder_.path / "data";
  std::unique_ptr<SqliteStore> store_;
  engine::IncarnationRow stream_ = incarnation_row("u1", 0, 1);
  std::uint64_t seq_ = 0;
  std::mt19937 random_{3};
};

TEST_F(Watched, AStoreThatWasRemovedTakesNothing) {
  for (const auto& entry : std::filesystem::directory_iterator(data_)) std::filesystem::remove(entry.path());
  EXPECT_THAT(refusal(), AllOf(HasSubstr("history.db: removed"), HasSubstr("restart the server"), Not(HasSubstr("\n"))));
  EXPECT_FALSE(store_->commit_alerts({}));
  store_.reset();
  open();
  EXPECT_EQ(count_reports(*store_, "u1"), 0U);
}

TEST_F(Watched, ALogThatWasRemovedTakesNothing) {
  std::filesystem::remove(at("history.db-wal"));
  EXPECT_THAT(refusal(), HasSubstr("history.db-wal: removed"));
  EXPECT_NE(refusal(), "");  // nor at the next try
  store_.reset();            // SQLite, who still has the log open, puts what is in it into the file
  open();
  EXPECT_EQ(count_reports(*store_, "u1"), seq_);
  EXPECT_EQ(store_->loss().commits, 0U);
}

TEST_F(Watched, AFolderThatWasMovedTakesNothingUntilItIsBack) {
  const auto away = folder_.path / "away";
  std::filesystem::rename(data_, away);
  EXPECT_NE(refusal(), "");
  std::filesystem::create_directory(data_);
  std::filesystem::copy(away, data_);  // the same bytes, but other files
  EXPECT_NE(refusal(), "");
  std::filesystem::remove_all(data_);
  std::filesystem::rename(away, data_);
  EXPECT_EQ(refusal(), "");
  store_.reset();
  open();
  EXPECT_EQ(count_reports(*store_, "u1"), seq_);
  EXPECT_EQ(store_->loss().commits, 0U);
}

TEST_F(Watched, ALogThatBeginsAnewIsTheSame) {
  Connection other(at("history.db").string(), SQLITE_OPEN_READWRITE);
  other.execute("PRAGMA wal_checkpoint(TRUNCATE)");
  EXPECT_EQ(std::filesystem::file_size(at("history.db-wal")), 0U);
  EXPECT_EQ(refusal(), "");
  EXPECT_EQ(refusal(), "");
}

TEST_F(Watched, AFolderInThePlaceOfTheSharedMemoryIsRefusedInOneLine) {
  const auto killed = folder_.path / "killed";
  std::filesystem::create_directory(killed);
  for (const char* name : {"history.db", "history.db-wal"}) std::filesystem::copy(at(name), killed / name);
  store_.reset();
  for (const bool with_log : {false, true}) {
    if (with_log) std::filesystem::copy(killed, data_, std::filesystem::copy_options::overwrite_existing);
    std::filesystem::create_directory(at("history.db-shm"));
    EXPECT_THAT(opening(), AllOf(HasSubstr("history.db-shm"), Not(HasSubstr("\n")))) << with_log;
    std::filesystem::remove(at("history.db-shm"));
  }
  EXPECT_EQ(opening(), "");
  EXPECT_EQ(count_reports(*store_, "u1"), seq_);
}

TEST_F(Watched, AFileThatIsCutInHalfGivesTheRowsOfTheOtherHalf) {
  add(200);
  add(2000);
  store_.reset();
  const auto size = std::filesystem::file_size(at("history.db"));
  std::filesystem::resize_file(at("history.db"), size / 2);
  const auto found = verify_folder(data_, true, [](double) { return true; });
  EXPECT_GT(found.faults_found, 0U);
  EXPECT_EQ(folder_stats(data_).runs, 1U);
  EXPECT_EQ(folder_stats(data_).streams, 1U);
  EXPECT_GE(folder_stats(data_).reports, 200U);
  EXPECT_EQ(opening(), "");
  EXPECT_GT(count_reports(*store_, "u1"), 0U);
}

}  // namespace
}  // namespace scalewatch::history
