// Batches before they leave: no server is needed.
#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "server/history/clickhouse/batch.h"
#include "tests/unit/history/questions.h"

namespace scalewatch::clickhouse {
namespace {

// Of two runs, the later one first; what a report names comes in the order of its ids.
void fill(Batch& batch) {
  std::uint64_t number = 0;
  for (const char* run : {"00000000000000bb", "00000000000000aa"}) {
    // Names are told apart by their hashes, which rise with no id.
    std::vector<TensorKey> tensors;
    for (std::uint32_t id = 0; id < history::kTensors; ++id) tensors.push_back({(id * 7919 + number * 13) % 1009, 1000});
    batch.begin_run(run, 1, 0, [&](std::uint32_t, const engine::Incarnation&, std::size_t) -> const std::vector<TensorKey>& {
      return tensors;
    });
    for (const auto& commit : history::ranks_and_restarts(static_cast<std::uint32_t>(++number))) {
      for (const auto& row : commit.reports) batch.add({row, std::nullopt});
    }
    batch.end_run();
  }
}

using Key = std::tuple<std::uint64_t, std::uint32_t, std::uint64_t, std::uint64_t, std::uint32_t, std::uint64_t, std::uint64_t>;
struct Row {
  Key key;  // run, segment, tensor, attempt, rank, stream, seq
  std::vector<double> numbers;
  auto operator<=>(const Row&) const = default;
};

std::vector<Row> rows_of(Block& records) {
  std::vector<Row> rows;
  for (std::size_t i = 0; i < records.rows(); ++i) {
    Row& row = rows.emplace_back();
    row.key = {records[0].at<std::uint64_t>(i), records[1].at<std::uint32_t>(i), records[2].at<std::uint64_t>(i),
               records[3].at<std::uint64_t>(i), records[4].at<std::uint32_t>(i), records[5].at<std::uint64_t>(i),
               records[6].at<std::uint64_t>(i)};
    for (std::size_t count = 9; count < 17; ++count) {
      row.numbers.push_back(static_cast<double>(records[count].at<std::uint64_t>(i)));
    }
    for (std::size_t extreme = 17; extreme < 20; ++extreme) {
      const float value = records[extreme].at<float>(i);
      row.numbers.push_back(value == value ? static_cast<double>(value) : -1e30);
    }
    for (std::size_t sum = 20; sum < 23; ++sum) row.numbers.push_back(records[sum].at<double>(i));
    row.numbers.push_back(records[23].at<std::uint8_t>(i));
    row.numbers.push_back(records[25].at<std::uint32_t>(i));
  }
  return rows;
}

TEST(Batches, RecordsComeInTheOrderOfTheirTable) {
  Batch batch;
  fill(batch);
  std::vector<Row> expected = rows_of(batch.records);
  ASSERT_GT(expected.size(), 100'000U);
  ASSERT_FALSE(std::is_sorted(expected.begin(), expected.end()));
  const auto by_key = [](const Row& a, const Row& b) { return a.key < b.key; };
  std::stable_sort(expected.begin(), expected.end(), by_key);
  batch.finish();
  EXPECT_TRUE(rows_of(batch.records) == expected);
  batch.finish();  // as when it is sent again
  EXPECT_TRUE(rows_of(batch.records) == expected);
  batch.clear();
  fill(batch);
  batch.finish();
  EXPECT_TRUE(rows_of(batch.records) == expected) << "a batch that was cleared is as a new one";
}

TEST(Batches, PartsOfABlockAreTheBlock) {
  Batch batch;
  fill(batch);
  const std::size_t rows = batch.records.rows();
  const auto whole = batch.records.native();
  const auto first = batch.records.native(0, rows / 3);
  const auto second = batch.records.native(rows / 3, rows - rows / 3);
  ASSERT_EQ(first.all.size(), whole.all.size());
  ASSERT_EQ(second.all.size(), whole.all.size());
  for (std::size_t i = 1; i < whole.all.size(); ++i) {
    if (i % 2 == 1) {  // a column's name and type
      EXPECT_EQ(first.all[i], whole.all[i]);
      EXPECT_EQ(second.all[i], whole.all[i]);
    } else {
      EXPECT_TRUE(std::string(first.all[i]) + std::string(second.all[i]) == whole.all[i]) << whole.all[i - 1];
    }
  }
}

}  // namespace
}  // namespace scalewatch::clickhouse
