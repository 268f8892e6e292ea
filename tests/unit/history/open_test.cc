// Opening a data folder: what is refused, and that the message says why.
#include <gmock/gmock.h>

#include <unistd.h>

#include <fstream>

#include "server/history/schema.h"
#include "server/history/sqlite.h"
#include "tests/unit/history/fixtures.h"

namespace scalewatch::history {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string refusal(const std::filesystem::path& directory) {
  try {
    SqliteStore::open(directory);
  } catch (const engine::StoreError& error) {
    return error.what();
  }
  return "opened";
}

void tamper(const std::filesystem::path& file, const char* sql) {
  Connection connection(file.string(), SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  connection.execute(sql);
}

TEST(Open, MakesTheFolderAndTheFileAsDesigned) {
  TempDir dir;
  const auto folder = dir.path / "a" / "b";
  SqliteStore::open(folder);
  Connection connection((folder / "history.db").string(), SQLITE_OPEN_READONLY);
  EXPECT_EQ(connection.scalar("PRAGMA page_size"), 16384);
  EXPECT_EQ(connection.scalar("PRAGMA auto_vacuum"), 2);  // incremental
  EXPECT_EQ(connection.scalar("PRAGMA user_version"), kSchemaVersion);
  EXPECT_EQ(connection.scalar("PRAGMA application_id"), kApplicationId);
}

TEST(Open, RefusesASecondOpenerUntilTheFirstIsGone) {
  TempDir dir;
  auto first = SqliteStore::open(dir.path);
  EXPECT_THAT(refusal(dir.path), AllOf(HasSubstr(dir.path.string()), HasSubstr("in use by another scalewatchd (pid ")));
  first.reset();
  EXPECT_EQ(refusal(dir.path), "opened");
}

TEST(Open, RefusesANewerSchema) {
  TempDir dir;
  SqliteStore::open(dir.path);
  tamper(dir.path / "history.db", "PRAGMA user_version = 99");
  EXPECT_THAT(refusal(dir.path), AllOf(HasSubstr("history.db"), HasSubstr("schema version 99 is newer"), Not(HasSubstr("\n"))));
}

TEST(Open, RefusesAFileThatIsNoDatabase) {
  TempDir dir;
  std::ofstream(dir.path / "history.db") << std::string(8192, 'x');
  EXPECT_THAT(refusal(dir.path), AllOf(HasSubstr("history.db"), HasSubstr("not a database"), Not(HasSubstr("\n"))));
}

TEST(Open, RefusesADatabaseOfSomethingElse) {
  TempDir dir;
  tamper(dir.path / "history.db", "CREATE TABLE someone_elses (x)");
  EXPECT_THAT(refusal(dir.path), HasSubstr("of something else"));
}

TEST(Open, RefusesAFolderThatCannotBeWritten) {
  TempDir dir;
  std::ofstream(dir.path / "file") << "";
  EXPECT_THAT(refusal(dir.path / "file"), HasSubstr((dir.path / "file").string()));
  EXPECT_THAT(refusal(dir.path / "file" / "below"), HasSubstr("cannot make the data folder"));
  // A folder in which nobody may make a file, root included.
  EXPECT_THAT(refusal("/proc/self"), AllOf(HasSubstr("/proc/self"), HasSubstr("not writable")));
}

TEST(Open, RefusesAReadOnlyFolder) {
  TempDir dir;
  using std::filesystem::perms;
  std::filesystem::permissions(dir.path, perms::owner_read | perms::owner_exec | perms::others_read | perms::others_exec);
  const bool root = geteuid() == 0;  // who may write everywhere: look as nobody
  constexpr uid_t kNobody = 65534;
  ASSERT_TRUE(!root || seteuid(kNobody) == 0);
  const std::string told = refusal(dir.path);
  ASSERT_TRUE(!root || seteuid(0) == 0);
  EXPECT_THAT(told, HasSubstr("not writable"));
}

TEST(Open, ReadsWhatAKilledServerLeftInItsWriteAheadLog) {
  TempDir dir;
  TempDir copy;
  auto store = SqliteStore::open(dir.path);
  engine::CommitBatch batch;
  batch.runs.push_back(run_row("u1", "alpha"));
  batch.incarnations.push_back(incarnation_row("u1", 0, 1));
  batch.reports.push_back(report_row(batch.incarnations[0], 1, 1, 1));
  store->commit(batch);
  // The files as they lie there now are what a kill -9 leaves: no checkpoint, no close.
  ASSERT_GT(std::filesystem::file_size(dir.path / "history.db-wal"), 0U);
  for (const char* name : {"history.db", "history.db-wal"}) std::filesystem::copy(dir.path / name, copy.path / name);

  auto reopened = SqliteStore::open(copy.path);
  EXPECT_EQ(count_reports(*reopened, "u1"), 1U);
}

TEST(Open, CutsATornTailAndKeepsWhatCameBefore) {
  TempDir dir;
  TempDir copy;
  auto store = SqliteStore::open(dir.path);
  engine::CommitBatch batch;
  batch.runs.push_back(run_row("u1", "alpha"));
  batch.incarnations.push_back(incarnation_row("u1", 0, 1));
  store->commit(batch);
  engine::CommitBatch second;
  second.reports.push_back(report_row(batch.incarnations[0], 1, 1, 1));
  store->commit(second);
  for (const char* name : {"history.db", "history.db-wal"}) std::filesystem::copy(dir.path / name, copy.path / name);
  const auto wal = copy.path / "history.db-wal";
  std::filesystem::resize_file(wal, std::filesystem::file_size(wal) - 100);

  auto reopened = SqliteStore::open(copy.path);
  EXPECT_TRUE(reopened->find_run("alpha"));
  EXPECT_EQ(count_reports(*reopened, "u1"), 0U);
}

// As a backup meets it: its step returns the code and leaves the connection without an error.
TEST(SqliteConnection, AnErrorThatTheConnectionDoesNotKnowIsNamedByItsCode) {
  const Connection connection(":memory:", SQLITE_OPEN_READWRITE);
  try {
    connection.fail("cannot copy", SQLITE_FULL);
  } catch (const engine::StoreError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("cannot copy"), HasSubstr("full"), Not(HasSubstr("not an error"))));
    EXPECT_TRUE(error.retryable);
  }
}

}  // namespace
}  // namespace scalewatch::history
