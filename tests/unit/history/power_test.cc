// The power goes at any moment: all that a commit had returned for is there afterwards, and nothing of what it had not is half
// there.
#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "server/history/maintenance.h"
#include "server/history/store_watch.h"
#include "tests/unit/history/power_vfs.h"
#include "tests/unit/history/random_reports.h"

namespace scalewatch::history {
namespace {

constexpr std::uint32_t kTensors = 24;
constexpr std::uint64_t kBatch = 7;  // reports of a commit

void write_file(const std::filesystem::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct Cut {
  PowerVfs::Files files;
  std::string mark;
  std::uint64_t durable = 0;  // reports whose commit had returned
};

// A store under load whose power goes at `cuts` random moments of it; what is left of each is kept.
class Load {
 public:
  explicit Load(std::uint32_t seed, bool compact) : random_(seed) {
    StoreOptions options;
    options.compaction.thread = false;
    auto store = SqliteStore::open(folder_.path, options);
    engine::CommitBatch first;
    first.runs = {run_row("u1", "alpha")};
    first.incarnations = {stream_};
    std::vector<Tensor> tensors;
    for (std::uint32_t i = 0; i < kTensors; ++i) tensors.push_back({"t" + std::to_string(i), v1::ROLE_GRADIENT, i, "", 1000});
    first.tables = {table_row(stream_, tensors)};
    store->commit(first);
    vfs_.on_moment([this](std::uint64_t) {
      if (random_() % 24 != 0 || cuts.size() >= kMostCuts) return;
      // The mark is written beside the database, and never flushed: any that was may be what is left.
      cuts.push_back({vfs_.power_cut(random_), marks_[random_() % marks_.size()], durable_});
    });
    marks_ = {read_file(folder_.path / "history.mark")};
    for (int round = 0; round < 60; ++round) {
      engine::CommitBatch batch;
      for (std::uint64_t i = 0; i < kBatch; ++i) {
        const std::uint64_t seq = ++seq_;
        reports.push_back(random_report(random_, seq, kTensors));
        batch.reports.push_back(report_row(stream_, seq, seq, seq, reports.back()));
      }
      store->commit(batch);
      durable_ = seq_;
      marks_.push_back(read_file(folder_.path / "history.mark"));
      if (compact && round % 20 == 19) store->compactor().run_now(false);
    }
    vfs_.on_moment({});
  }

  std::vector<Cut> cuts;
  std::vector<v1::Report> reports;

 private:
  static constexpr std::size_t kMostCuts = 40;
  PowerVfs vfs_;
  TempDir folder_;
  std::mt19937 random_;
  engine::IncarnationRow stream_ = incarnation_row("u1", 0, 1);
  std::vector<std::string> marks_;
  std::uint64_t seq_ = 0;
  std::uint64_t durable_ = 0;
};

class Power : public ::testing::TestWithParam<int> {};

TEST_P(Power, WhatWasDurableIsThere) {
  const Load load(static_cast<std::uint32_t>(GetParam()), GetParam() % 2 == 0);
  ASSERT_GT(load.cuts.size(), 5U);
  for (const auto& cut : load.cuts) {
    TempDir folder;
    for (const auto& [name, content] : cut.files) write_file(folder.path / name, content);
    write_file(folder.path / "history.mark", cut.mark);
    StoreOptions options;
    options.compaction.thread = false;
    const auto store = SqliteStore::open(folder.path, options);
    EXPECT_EQ(store->loss().commits, 0U);
    std::uint64_t seq = 0;
    for (const auto& entry : read_all(*store, "u1")) {
      ASSERT_TRUE(entry.report);
      ASSERT_EQ(entry.report->seq, ++seq);
      v1::Report report;
      ASSERT_TRUE(report.ParseFromString(entry.report->payload));
      ASSERT_EQ(report.seq(), seq);
      ASSERT_EQ(report.loss(), load.reports[seq - 1].loss());
    }
    EXPECT_GE(seq, cut.durable);
    EXPECT_LE(seq, cut.durable + kBatch);
    EXPECT_EQ(seq % kBatch, 0U) << "half a commit";
    const auto verified = verify_folder(folder.path, false, [](double) { return true; });
    EXPECT_EQ(verified.faults_found, 0U) << (verified.faults.empty() ? "" : verified.faults[0].what);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Power, ::testing::Range(0, 8));

// The file system that the test stands on loses something when nobody syncs.
TEST(PowerVfs, DropsWhatWasNotSynced) {
  PowerVfs vfs;
  TempDir folder;
  Connection connection((folder.path / "history.db").string(), SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  connection.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; CREATE TABLE t (x); INSERT INTO t VALUES (1)");
  std::mt19937 random(1);
  bool lost = false;
  for (int i = 0; i < 20 && !lost; ++i) {
    TempDir other;
    for (const auto& [name, content] : vfs.power_cut(random)) write_file(other.path / name, content);
    try {
      Connection after((other.path / "history.db").string(), SQLITE_OPEN_READWRITE);
      lost = after.scalar("SELECT count(*) FROM t") == 0;
    } catch (const engine::StoreError&) {
      lost = true;
    }
  }
  EXPECT_TRUE(lost);
}

}  // namespace
}  // namespace scalewatch::history
