// The write-ahead log stays small while somebody always reads.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/unit/history/fixtures.h"

namespace scalewatch::history {
namespace {

TEST(LogSize, ReadersThatFollowEachOtherWithoutAGapDoNotKeepItGrowing) {
  const TempDir dir;
  StoreOptions options;
  options.compaction.thread = false;
  options.log_bytes = 1U << 20;
  const auto store = SqliteStore::open(dir.path, options);
  engine::CommitBatch first;
  first.runs.push_back(run_row("u1", "alpha"));
  store->commit(first);

  std::atomic<bool> stop{false};
  std::atomic<int> reads{0};
  std::thread reader([&] {
    auto lease = std::make_unique<ReadPool::Lease>(store->readers());
    while (!stop) {
      auto next = std::make_unique<ReadPool::Lease>(store->readers());
      (**next).scalar("SELECT count(*) FROM inputs");  // from here on its view stands
      lease = std::move(next);
      ++reads;
    }
  });
  constexpr std::uint64_t kCommits = 60;
  const std::string payload(200'000, 'x');  // 12 MB in all
  for (std::uint64_t pos = 1; pos <= kCommits; ++pos) {
    const int before = reads;
    while (reads < before + 2) std::this_thread::yield();
    engine::CommitBatch batch;
    batch.inputs = {{"u1", pos, payload}};
    store->commit(batch);
    store->compactor().run_now(false);  // what the background thread does each second
  }
  stop = true;
  reader.join();
  EXPECT_LT(std::filesystem::file_size(dir.path / "history.db-wal"), 3U << 20);
  ReadPool::Lease lease(store->readers());
  EXPECT_EQ((*lease).scalar("SELECT count(*) FROM inputs"), static_cast<std::int64_t>(kCommits));
}

}  // namespace
}  // namespace scalewatch::history
