// Batches before they leave: no server is needed.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
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

// What ClickHouse reads of the parts: values by column. Of numbers alone, as they are in `records`.
std::map<std::string, std::string> columns_in(const Block::Parts& parts, std::size_t rows) {
  std::string bytes;
  for (const std::string_view part : parts.all) bytes += part;
  RowReader at(bytes);
  // Counts have one byte, or the second one says so.
  const auto count = [&] {
    std::size_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = at.get<std::uint8_t>();
      value |= std::size_t{byte & 0x7fU} << shift;
      if (byte < 0x80) return value;
    }
  };
  const std::map<std::string_view, std::size_t> widths = {{"UInt8", 1},  {"Date", 2},    {"UInt32", 4},
                                                          {"UInt64", 8}, {"Float32", 4}, {"Float64", 8}};
  std::map<std::string, std::string> columns;
  std::string names;
  const std::size_t in_all = count();
  EXPECT_EQ(count(), rows);
  for (std::size_t i = 0; i < in_all; ++i) {
    const std::string name(at.text());
    names += (names.empty() ? "" : ",") + name;
    columns[name] = at.bytes(widths.at(at.text()) * rows);
  }
  EXPECT_TRUE(at.done());
  EXPECT_EQ(names, parts.columns);
  return columns;
}

TEST(Batches, PartsOfABlockAreTheBlock) {
  Batch batch;
  fill(batch);
  const std::size_t rows = batch.records.rows();
  const auto whole = columns_in(batch.records.native(), rows);
  auto halves = columns_in(batch.records.native(0, rows / 3), rows / 3);
  for (const auto& [name, values] : columns_in(batch.records.native(rows / 3, rows - rows / 3), rows - rows / 3))
    halves[name] += values;
  EXPECT_TRUE(whole == halves);
  EXPECT_TRUE(whole.contains("min"));
}

TEST(Blocks, AColumnOfZerosIsLeftOutAndOneOfTheSameIsWhole) {
  for (const auto zeros : {Block::Zeros::kSent, Block::Zeros::kLeftOut}) {
    Block block("run UInt64, nans UInt64, over UInt64, late UInt32, min Float32, sum Float64", zeros);
    constexpr std::size_t kRows = 20'000;  // several pieces of a repeated value
    const auto fill_in = [&](std::uint32_t late) {
      block[0].add_each(kRows, [](std::size_t) { return std::uint64_t{0x0102030405060708}; });
      block[1].add_each(kRows, [](std::size_t) { return std::uint64_t{0}; });
      block[2].add_each(kRows, [](std::size_t i) { return std::uint64_t{i == 0 ? 7U : 0U}; });
      for (std::size_t i = 0; i + 1 < kRows; ++i) block[3].add(std::uint32_t{0});
      block[3].add(late);
      block[4].add_each(kRows, [](std::size_t) { return -0.0F; });
      block[5].add_each(kRows, [](std::size_t i) { return static_cast<double>(i); });
      block.row_done(kRows);
    };
    for (const std::uint32_t late : {9U, 0U}) {  // the second time as a block that was cleared
      block.clear();
      fill_in(late);
      auto columns = columns_in(block.native(), kRows);
      const bool left_out = zeros == Block::Zeros::kLeftOut;
      EXPECT_EQ(columns.contains("nans"), !left_out);
      EXPECT_EQ(columns.contains("late"), !left_out || late != 0);
      ASSERT_TRUE(columns.contains("run") && columns.contains("over") && columns.contains("min") && columns.contains("sum"));
      std::string run;
      for (std::size_t i = 0; i < kRows; ++i) run += std::string("\x08\x07\x06\x05\x04\x03\x02\x01", 8);
      EXPECT_TRUE(columns["run"] == run);
      EXPECT_EQ(columns["over"], "\x07" + std::string(kRows * 8 - 1, '\0'));
      EXPECT_EQ(columns["min"].substr(0, 8), std::string("\0\0\0\x80\0\0\0\x80", 8)) << "a zero with a sign is no zero";
      if (late != 0) {
        EXPECT_EQ(columns["late"], std::string(kRows * 4 - 4, '\0') + std::string("\x09\0\0\0", 4));
      }
      EXPECT_EQ(block[1].at<std::uint64_t>(kRows - 1), 0U);
      EXPECT_EQ(block[3].at<std::uint32_t>(kRows - 1), late);
      EXPECT_EQ(block[5].at<double>(kRows - 1), kRows - 1.0);
    }
  }
}

}  // namespace
}  // namespace scalewatch::clickhouse
