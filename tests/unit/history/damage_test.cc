// Files that were removed, swapped, cut or flipped behind the server's back: what is lost is told, and nothing else is served
// than what was stored.
#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>

#include "server/history/chunk.h"
#include "server/history/history_api.h"
#include "server/history/maintenance.h"
#include "server/history/seal.h"
#include "server/history/store_watch.h"
#include "tests/unit/history/random_reports.h"

namespace scalewatch::history {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::uint32_t kTensors = 70;

StoreOptions by_hand() {
  StoreOptions options;
  options.compaction.thread = false;
  return options;
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void write_file(const std::filesystem::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

constexpr const char* kDatabase = "history.db";
constexpr const char* kLog = "history.db-wal";
constexpr const char* kMark = "history.mark";

// A store that is written to; its files as they lie there at a moment are what kill -9 leaves.
class Written {
 public:
  Written() : store(SqliteStore::open(folder.path, by_hand())) {
    engine::CommitBatch batch;
    batch.runs = {run_row("u1", "alpha")};
    batch.incarnations = {stream_};
    std::vector<Tensor> tensors;
    for (std::uint32_t i = 0; i < kTensors; ++i) tensors.push_back({"t" + std::to_string(i), v1::ROLE_GRADIENT, i, "", 1000});
    batch.tables = {table_row(stream_, tensors)};
    store->commit(batch);
  }
  // Commits of one report each.
  void add(std::uint64_t reports) {
    for (std::uint64_t i = 0; i < reports; ++i) {
      engine::CommitBatch batch;
      ++seq;
      batch.reports.push_back(report_row(stream_, seq, 2 * seq, seq, random_report(random_, seq, kTensors)));
      batch.reports.back().scalers = {scaler_row(1, 1024, 1024)};
      batch.inputs.push_back({"u1", 2 * seq + 1, R"({"kind":"attempt_closed"})"});
      store->commit(batch);
    }
  }
  // All that is in the write-ahead log into the file, which the next commit begins anew.
  void checkpoint() {
    Connection connection((folder.path / kDatabase).string(), SQLITE_OPEN_READWRITE);
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)");
  }
  void copy_to(const std::filesystem::path& to) const {
    for (const char* name : {kDatabase, kLog, kMark}) {
      std::filesystem::copy_file(folder.path / name, to / name, std::filesystem::copy_options::overwrite_existing);
    }
  }

  TempDir folder;
  std::unique_ptr<SqliteStore> store;
  std::uint64_t seq = 0;

 private:
  engine::IncarnationRow stream_ = incarnation_row("u1", 0, 1);
  std::mt19937 random_{5};
};

class Lost : public ::testing::Test {
 protected:
  Lost() {
    written_.add(20);
    written_.checkpoint();
    written_.add(5);
    written_.copy_to(folder_.path);
  }
  std::filesystem::path at(const char* name) const { return folder_.path / name; }
  std::uint64_t lost() { return (store_ = SqliteStore::open(folder_.path, by_hand()))->loss().commits; }
  std::size_t reports() { return count_reports(*store_, "u1"); }
  std::size_t set_aside() const {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path)) {
      count += entry.path().string().find("history.db-wal.unfit-") != std::string::npos ? 1 : 0;
    }
    return count;
  }

  Written written_;
  TempDir folder_;
  std::unique_ptr<SqliteStore> store_;
};

TEST_F(Lost, NothingIsWhenNothingIs) {
  EXPECT_EQ(lost(), 0U);
  EXPECT_EQ(reports(), 25U);
  store_.reset();
  EXPECT_EQ(lost(), 0U);  // nor after an end in order, which takes the log away
  EXPECT_EQ(set_aside(), 0U);
}

TEST_F(Lost, AWriteAheadLogThatIsGoneIsCountedInCommits) {
  std::filesystem::remove(at(kLog));
  EXPECT_EQ(lost(), 5U);
  EXPECT_EQ(reports(), 20U);
  EXPECT_GT(store_->loss().since_ms, 0);
  EXPECT_GE(store_->loss().until_ms, store_->loss().since_ms);
  store_.reset();
  EXPECT_EQ(lost(), 0U);  // told once
  EXPECT_EQ(store_->loss().commits_ever, 5U);
}

TEST_F(Lost, ACutTailCostsItsCommits) {
  std::filesystem::resize_file(at(kLog), std::filesystem::file_size(at(kLog)) - 100);
  EXPECT_EQ(lost(), 1U);
  EXPECT_EQ(reports(), 24U);
}

TEST_F(Lost, AFileThatIsGoneOrEmptiedIsMadeAnewAndTold) {
  for (const bool emptied : {false, true}) {
    written_.copy_to(folder_.path);
    emptied ? std::filesystem::resize_file(at(kDatabase), 0) : static_cast<void>(std::filesystem::remove(at(kDatabase)));
    EXPECT_GE(lost(), 26U);
    EXPECT_FALSE(store_->find_run("alpha"));
    store_.reset();
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path)) std::filesystem::remove(entry.path());
  }
}

TEST_F(Lost, TheLogOfAnotherStoreIsSetAside) {
  Written other;
  other.add(30);
  std::filesystem::copy_file(other.folder.path / kLog, at(kLog), std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(lost(), 5U);
  EXPECT_EQ(reports(), 20U);
  EXPECT_EQ(set_aside(), 1U);
}

TEST_F(Lost, AnOlderLogIsSetAside) {
  const std::string older = read_file(at(kLog));
  written_.add(2);
  written_.checkpoint();
  written_.add(9);
  written_.copy_to(folder_.path);
  write_file(at(kLog), older);
  EXPECT_EQ(lost(), 9U);
  EXPECT_EQ(reports(), 27U);
  EXPECT_EQ(set_aside(), 1U);
}

// As when a backup is put back and the log beside it is forgotten.
TEST_F(Lost, AnOlderFileUnderANewerLogStandsAlone) {
  const std::string older = read_file(at(kDatabase));
  written_.add(4);
  written_.checkpoint();
  written_.add(6);
  written_.copy_to(folder_.path);
  write_file(at(kDatabase), older);
  EXPECT_EQ(lost(), 15U);
  EXPECT_EQ(reports(), 20U);
  EXPECT_EQ(set_aside(), 1U);
}

TEST_F(Lost, AnotherStoreInItsPlaceIsTaken) {
  Written other;
  other.add(3);
  for (const char* name : {kDatabase, kLog}) {
    std::filesystem::copy_file(other.folder.path / name, at(name), std::filesystem::copy_options::overwrite_existing);
  }
  EXPECT_GE(lost(), 26U);  // of the one that was here
  EXPECT_EQ(reports(), 3U);
  EXPECT_EQ(set_aside(), 0U);
}

// After a power cut the mark is older than the store, or torn.
TEST_F(Lost, AMarkThatIsOlderOrBrokenLosesNothing) {
  const std::string mark = read_file(at(kMark));
  written_.add(2);
  written_.checkpoint();
  written_.add(2);
  for (const std::string& left : {mark, mark.substr(0, 100), std::string(), std::string(512, '\0')}) {
    written_.copy_to(folder_.path);
    write_file(at(kMark), left);
    EXPECT_EQ(lost(), 0U);
    EXPECT_EQ(reports(), 29U);
    EXPECT_EQ(set_aside(), 0U);
    store_.reset();
  }
}

TEST_F(Lost, AFolderInThePlaceOfAFileIsRefusedInOneLine) {
  for (const char* name : {kDatabase, kLog}) {
    TempDir folder;
    written_.copy_to(folder.path);
    std::filesystem::remove(folder.path / name);
    std::filesystem::create_directory(folder.path / name);
    try {
      SqliteStore::open(folder.path, by_hand());
      ADD_FAILURE() << name;
    } catch (const engine::StoreError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr(kDatabase), Not(HasSubstr("\n"))));
    }
  }
}

// Of a server that counted no commits and sealed nothing.
TEST_F(Lost, AnOlderStoreIsTakenAsItIs) {
  Connection(at(kDatabase).string(), SQLITE_OPEN_READWRITE)
      .execute(
          "DROP TABLE store_state; UPDATE payloads SET payload = substr(payload, 1, length(payload) - 7);"
          "UPDATE streams SET hello = substr(hello, 1, length(hello) - 7); PRAGMA user_version = 2");
  std::filesystem::remove(at(kMark));
  EXPECT_EQ(lost(), 0U);
  EXPECT_EQ(reports(), 25U);
  for (const auto& entry : read_all(*store_, "u1")) EXPECT_TRUE(!entry.report || !entry.report->payload.empty());
}

// ---- flipped bytes --------------------------------------------------------------------------------------------------

struct Damage {
  std::string what;
  std::string file;
};

Damage damage(const std::filesystem::path& folder, std::mt19937& random) {
  const char* name = random() % 3 == 0 ? kLog : kDatabase;
  std::string content = read_file(folder / name);
  const auto anywhere = [&] { return random() % content.size(); };
  Damage done{"", name};
  switch (random() % 4) {
    case 0:
      for (int i = 1 + static_cast<int>(random() % 8); i > 0; --i) {
        const auto at = anywhere();
        content[at] = static_cast<char>(content[at] ^ (1 << random() % 8));
        done.what += " bit at " + std::to_string(at);
      }
      break;
    case 1: {
      const auto from = anywhere();
      const auto size = std::min<std::size_t>(content.size() - from, 1 + random() % 3000);
      for (std::size_t i = 0; i < size; ++i) content[from + i] = static_cast<char>(random());
      done.what = " noise at " + std::to_string(from);
      break;
    }
    case 2: {
      const auto page = anywhere() / 16384 * 16384;
      content.replace(page, std::min<std::size_t>(16384, content.size() - page),
                      std::min<std::size_t>(16384, content.size() - page), '\0');
      done.what = " zeros at " + std::to_string(page);
      break;
    }
    default:
      content.resize(anywhere());
      done.what = " cut at " + std::to_string(content.size());
  }
  write_file(folder / name, content);
  return done;
}

TEST(Seal, AnyChangedBitIsSeen) {
  const std::string message = report_of({{1, 2.0F}, {2, 3.0F}}).SerializeAsString();
  const std::string stored = sealed(message);
  EXPECT_EQ(unsealed(stored, true), message);
  EXPECT_EQ(unsealed(message, false), message);  // of an older file
  EXPECT_FALSE(unsealed(message, true));
  v1::Report report;
  EXPECT_TRUE(report.ParseFromString(stored));  // by a reader that knows no seals
  EXPECT_EQ(report.blocks_size(), 1);
  for (std::size_t bit = 0; bit < stored.size() * 8; ++bit) {
    std::string flipped = stored;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    for (const bool always : {false, true}) {
      const auto read = unsealed(flipped, always);
      EXPECT_TRUE(!read || *read == message) << "bit " << bit;
    }
  }
}

TEST(Seal, AFrameIsCheckedWhenItIsRead) {
  TensorRows rows;
  for (std::uint8_t i = 0; i < 5; ++i) {
    rows.places.push_back(i);
    rows.rows.emplace_back();
    rows.rows.back().record.numel = 100 + i;
  }
  std::string frame;
  write_frame(rows, 5, 100, frame);
  FrameView view;
  ASSERT_TRUE(view.open(frame, 5, 100));
  for (std::size_t bit = 0; bit < frame.size() * 8; ++bit) {
    std::string flipped = frame;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(view.open(flipped, 5, 100)) << "bit " << bit;
  }
}

// Of rows of numbers every column is covered; one that changed is not served, and costs nothing but itself.
TEST(Damaged, RowsOfNumbersThatChangedAreLeftOutAndTold) {
  const std::map<std::string, std::vector<std::string>> columns{
      {"reports", {"rank", "step", "time_ms", "loss", "lr", "grad_norm"}},
      {"scaler_rows", {"step", "time_ms", "scale_before", "scale_after", "growth_tracker", "outcome", "loss"}}};
  for (const auto& [table, names] : columns) {
    for (const auto& column : names) {
      SCOPED_TRACE(table + "." + column);
      Written written;
      written.add(9);
      Connection file((written.folder.path / kDatabase).string(), SQLITE_OPEN_READWRITE);
      const auto api = make_history_api(*written.store);
      file.execute(("UPDATE " + table + " SET " + column + " = coalesce(" + column + ", 0) + 1 WHERE attempt = 5").c_str());
      ASSERT_EQ(file.changes(), 1);

      v1::GetScalerHistoryRequest request;
      request.set_run("alpha");
      v1::GetScalerHistoryResponse scaler;
      ASSERT_TRUE(api->get_scaler_history(request, scaler).ok());
      std::vector<std::uint64_t> attempts;
      for (const auto& point : scaler.points()) attempts.push_back(point.first_attempt());
      const bool of_scaler = table == "scaler_rows";
      EXPECT_EQ(attempts.size(), of_scaler ? 8U : 9U);
      EXPECT_EQ(std::count(attempts.begin(), attempts.end(), 5U), of_scaler ? 0 : 1);

      v1::GetTensorHistoryRequest tensor;
      tensor.set_run("alpha");
      tensor.set_tensor("t0");
      v1::GetTensorHistoryResponse series;
      ASSERT_TRUE(api->get_tensor_history(tensor, series).ok());
      EXPECT_EQ(series.points_size(), of_scaler ? 9 : 8);
      for (const auto& point : series.points()) EXPECT_TRUE(of_scaler || point.first_attempt() != 5);

      std::size_t damaged = 0;
      for (const auto& entry : read_all(*written.store, "u1")) {
        if (!entry.report) continue;
        const bool changed = entry.report->seq == 5;
        EXPECT_EQ(entry.report->payload.empty(), changed && !of_scaler);
        EXPECT_EQ(entry.report->scalers.empty(), changed);
        damaged += changed ? 1 : 0;
      }
      EXPECT_EQ(damaged, 1U);
      const auto told = verify_folder(written.folder.path, false, [](double) { return true; });
      EXPECT_EQ(told.faults_found, 1U);
      EXPECT_THAT(told.faults.empty() ? "" : told.faults[0].what, HasSubstr("the row is not as it was stored"));
    }
  }
}

// A file that such rows came into from a server without checks.
TEST(Damaged, SummariesThatChangedAreToldAndNotServed) {
  Written written;
  written.add(300);
  written.store->compactor().run_now(false);
  Connection file((written.folder.path / kDatabase).string(), SQLITE_OPEN_READWRITE);
  std::int64_t id = 0;
  std::string stored;
  {
    Query row(file, "SELECT id, tensors FROM summaries ORDER BY id LIMIT 1");
    ASSERT_TRUE(row.step());
    id = row.i64(0);
    stored = row.bytes(1);
  }
  const auto asked = [&] {
    const auto api = make_history_api(*written.store);
    v1::TopTensorsRequest top;
    top.set_run("alpha");
    top.mutable_range()->set_first(1);
    top.mutable_range()->set_last(300);
    v1::TopTensorsResponse tensors;
    v1::GetTensorHistoryRequest history;
    history.set_run("alpha");
    history.set_tensor("t0");
    history.set_max_points(2);
    v1::GetTensorHistoryResponse series;
    return std::array{api->top_tensors(top, tensors), api->get_tensor_history(history, series)};
  };
  for (const auto& status : asked()) EXPECT_TRUE(status.ok()) << status.message;
  for (std::size_t at = 0; at < stored.size(); at += 7) {
    std::string changed = stored;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    Query(file, "UPDATE summaries SET tensors = ? WHERE id = ?", Blob{changed}, id).run();
    const auto answers = asked();
    for (std::size_t i = 0; i < answers.size(); ++i) EXPECT_THAT(answers[i].message, HasSubstr("damaged")) << at << " " << i;
  }
}

TEST(Damaged, RowsWithoutAChecksumAreServed) {
  Written written;
  written.add(9);
  Connection((written.folder.path / kDatabase).string(), SQLITE_OPEN_READWRITE)
      .execute("UPDATE reports SET crc = NULL, loss = 7 WHERE seq = 5; UPDATE scaler_rows SET crc = NULL");
  for (const auto& entry : read_all(*written.store, "u1")) {
    EXPECT_TRUE(!entry.report || (!entry.report->payload.empty() && !entry.report->scalers.empty()));
  }
  EXPECT_EQ(verify_folder(written.folder.path, false, [](double) { return true; }).faults_found, 0U);
}

TEST(Damaged, AFileThatHasNoChecksumsOfRowsYetIsVerified) {
  Written written;
  written.add(9);
  written.store.reset();
  Connection((written.folder.path / kDatabase).string(), SQLITE_OPEN_READWRITE)
      .execute("ALTER TABLE reports DROP COLUMN crc; ALTER TABLE scaler_rows DROP COLUMN crc");
  EXPECT_EQ(verify_folder(written.folder.path, false, [](double) { return true; }).faults_found, 0U);
  written.store = SqliteStore::open(written.folder.path, by_hand());
  written.add(1);
  EXPECT_EQ(count_reports(*written.store, "u1"), 10U);
}

TEST(Damaged, WhatIsServedIsWhatWasStored) {
  Written written;
  written.add(200);
  written.store->compactor().run_now(false);
  written.add(60);
  written.checkpoint();
  written.add(30);
  std::map<std::uint64_t, std::string> model;  // payloads by pos
  for (const auto& entry : read_all(*written.store, "u1")) {
    entry.report ? model[entry.report->pos] = entry.report->payload : model[entry.input->pos] = entry.input->payload;
  }
  ASSERT_EQ(model.size(), 580U);

  const char* asked = std::getenv("SCALEWATCH_DAMAGE_SEEDS");
  const std::uint32_t seeds = asked != nullptr ? static_cast<std::uint32_t>(std::atoi(asked)) : 200;
  std::size_t opened = 0;
  std::size_t refused = 0;
  std::size_t told = 0;
  for (std::uint32_t seed = 0; seed < seeds; ++seed) {
    std::mt19937 random(seed);
    TempDir folder;
    written.copy_to(folder.path);
    const Damage done = damage(folder.path, random);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + done.file + done.what);
    try {
      const auto store = SqliteStore::open(folder.path, by_hand());
      ++opened;
      std::size_t whole = 0;
      const std::uint64_t lost = store->loss().commits;
      store->read_log("u1", 0, [&](const auto& entry) {
        const std::uint64_t pos = entry.report ? entry.report->pos : entry.input->pos;
        const std::string& payload = entry.report ? entry.report->payload : entry.input->payload;
        if (entry.report && payload.empty()) return;  // said to be damaged
        if (entry.input) {
          ++whole;  // the engine's own seal is within
          return;
        }
        ASSERT_TRUE(model.contains(pos));
        ASSERT_TRUE(payload == model.at(pos)) << "report at " << pos;
        ++whole;
      });
      told += lost > 0 || whole < model.size() ? 1 : 0;
      // What is missing and not said to be damaged is in the commits that are told lost.
      EXPECT_TRUE(whole == model.size() || lost > 0 ||
                  verify_folder(folder.path, false, [](double) { return true; }).faults_found > 0);
    } catch (const engine::StoreError& error) {
      ++refused;
      EXPECT_THAT(error.what(), AllOf(HasSubstr(kDatabase), Not(HasSubstr("\n"))));
    }
  }
  RecordProperty("opened", static_cast<int>(opened));
  RecordProperty("refused", static_cast<int>(refused));
  EXPECT_GT(opened, seeds / 4);
  EXPECT_GT(told, 0U);
}

}  // namespace
}  // namespace scalewatch::history
