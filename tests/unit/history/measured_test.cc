// Records out of columns, merged over ranks and scales.
#include <gmock/gmock.h>

#include <limits>

#include "server/history/record_reader.h"
#include "tests/unit/history/fixtures.h"

namespace scalewatch::history {
namespace {

Measured measured(float absmax, double scale = 1) {
  Measured out;
  out.target = DType::kFp16;
  out.scale = scale;
  out.record.numel = 10;
  out.record.min = -absmax;
  out.record.max = absmax / 2;
  out.record.absmin_nonzero = absmax / 4;
  out.record.sum = absmax;
  out.record.sum_sq = absmax;
  return out;
}

TEST(RecordReader, DenseAndListedIdsGiveTheSameRecordsBothWays) {
  v1::Report report = report_of({{3, 1}, {5, 2, 4}, {9, 8, 0, 6, 2}}, 1024);
  auto& dense = *report.add_blocks();
  dense.set_first_id(20);
  dense.set_count(2);
  dense.set_micro_batches(4);
  for (const float value : {1.0F, 2.0F}) {
    dense.add_min(value);
    dense.add_max(value);
    dense.add_absmin_nonzero(value);
    dense.add_sum(value);
    dense.add_sum_sq(value);
  }
  auto* bad = dense.add_first_bad_micro();
  bad->set_index(1);
  bad->set_micro(3);

  std::vector<std::uint32_t> ids;
  for_each_record(
      report, [](std::uint32_t id) { return std::uint64_t{100} * id; },
      [&](std::uint32_t id, const Measured& record) {
        ids.push_back(id);
        const auto single = find_record(report, id, std::uint64_t{100} * id);
        ASSERT_TRUE(single);
        EXPECT_EQ(to_proto(*single).SerializeAsString(), to_proto(record).SerializeAsString());
      });
  EXPECT_THAT(ids, ::testing::ElementsAre(3, 5, 9, 20, 21));
  const auto five = to_proto(*find_record(report, 5, 100));
  EXPECT_EQ(five.nan(), 4U);
  EXPECT_EQ(five.numel(), 100U);
  EXPECT_FLOAT_EQ(five.absmax(), 2);
  EXPECT_EQ(five.measured_under_scale(), 1024);
  const auto last = to_proto(*find_record(report, 21, 7));
  EXPECT_EQ(last.numel(), 28U);
  EXPECT_EQ(last.micro_batches(), 4U);
  EXPECT_EQ(last.first_bad_micro(), 3U);
  for (const std::uint32_t id : {0U, 4U, 19U, 22U, 0xffffffffU}) EXPECT_FALSE(find_record(report, id, 1)) << id;
}

TEST(RecordReader, ColumnsThatAreTooShortReadAsAbsent) {
  v1::Report report;
  auto& block = *report.add_blocks();
  block.set_count(4'000'000'000);
  block.add_sum(1);
  block.add_sum(2);
  block.add_nan()->set_index(77);
  int count = 0;
  for_each_record(
      report, [](std::uint32_t) { return 1; },
      [&](std::uint32_t, const Measured& record) {
        ++count;
        EXPECT_FALSE(to_proto(record).has_absmax());
      });
  EXPECT_EQ(count, 2);
}

TEST(Measured, AbsentStaysAbsentOnTheWire) {
  Measured empty;
  empty.target = DType::kFp16;
  empty.record.numel = 3;
  empty.record.nan = 3;
  const auto record = to_proto(empty);
  EXPECT_FALSE(record.has_min());
  EXPECT_FALSE(record.has_max());
  EXPECT_FALSE(record.has_absmin_nonzero());
  EXPECT_FALSE(record.has_absmax());
  EXPECT_FALSE(record.has_headroom());
  Measured zeros;
  zeros.target = DType::kFp16;
  zeros.record.min = zeros.record.max = 0;
  EXPECT_TRUE(to_proto(zeros).has_absmax());
  EXPECT_FALSE(to_proto(zeros).has_headroom());
}

TEST(Measured, DifferentScalesMeetUnscaled) {
  Measured total = measured(1024, 1024);
  combine(total, measured(8, 2));
  EXPECT_EQ(total.scale, 1);
  EXPECT_FLOAT_EQ(total.record.min, -4);
  EXPECT_FLOAT_EQ(total.record.absmin_nonzero, 0.25F);
  EXPECT_DOUBLE_EQ(total.record.sum, 5);
  // A magnitude that is not zero does not become zero.
  Measured tiny = measured(4 * std::numeric_limits<float>::denorm_min(), 65536);
  combine(tiny, measured(1));
  EXPECT_GT(tiny.record.absmin_nonzero, 0);
}

TEST(RankMerge, ShardsAddAndReplicasAreCountedOnce) {
  RankMerge merge;
  auto replica = measured(2);
  replica.record.nan = 1;
  merge.add(0, 0, replica);
  replica.record.nan = 5;
  replica.record.max = 99;
  merge.add(1, 0, replica);
  merge.add(2, 7, measured(8));
  const auto total = merge.total();
  EXPECT_EQ(total.record.numel, 20U);
  EXPECT_EQ(total.record.nan, 5U);
  EXPECT_FLOAT_EQ(total.record.max, 4);
  EXPECT_DOUBLE_EQ(total.record.sum, 10);
  std::vector<std::uint32_t> ranks;
  merge.each_rank([&](std::uint32_t rank) { ranks.push_back(rank); });
  EXPECT_THAT(ranks, ::testing::ElementsAre(0, 1, 2));
}

}  // namespace
}  // namespace scalewatch::history
