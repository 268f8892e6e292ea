// Packed messages as generated code reads them.
#include "client_lib/src/pack.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "scalewatch/v1/ingest.pb.h"

namespace scalewatch::client {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

v1::ClientMessage parse(const std::string& bytes) {
  v1::ClientMessage message;
  EXPECT_TRUE(message.ParseFromString(bytes));
  return message;
}

Measured measured(std::uint32_t id, Role role = Role::kGradient) {
  Measured m;
  m.id = id;
  m.role = role;
  m.target = DType::kFp16;
  m.micro_batches = 1;
  m.table_numel = 4;
  m.record.numel = 4;
  m.record.min = -1;
  m.record.max = static_cast<float>(id);
  m.record.absmin_nonzero = 0.5F;
  m.record.sum = 3;
  m.record.sum_sq = 9;
  return m;
}

TEST(Pack, DenseBlockLeavesOutWhatItMay) {
  Attempt attempt;
  attempt.seq = 7;
  attempt.step = -3;
  attempt.measured = {measured(2), measured(1), measured(3)};  // any order in
  ReportPacker packer;
  const auto message = parse(packer.pack(attempt, {}));
  const v1::Report& report = message.report();
  EXPECT_EQ(report.seq(), 7U);
  EXPECT_EQ(report.attempt(), 7U);
  EXPECT_EQ(report.step(), -3);
  EXPECT_FALSE(report.has_loss());
  EXPECT_FALSE(report.has_input_non_finite());
  ASSERT_EQ(report.blocks_size(), 1);
  const v1::RecordBlock& block = report.blocks(0);
  EXPECT_EQ(block.first_id(), 1U);
  EXPECT_EQ(block.count(), 3U);
  EXPECT_EQ(block.ids_size(), 0);
  EXPECT_EQ(block.numel_size(), 0);
  EXPECT_EQ(block.zero_size(), 0);
  EXPECT_EQ(block.subnormal_size(), 0);
  EXPECT_EQ(block.flushed_size(), 0);
  ASSERT_EQ(block.max_size(), 3);
  EXPECT_EQ(block.max(0), 1.0F);
  EXPECT_EQ(block.max(2), 3.0F);
  EXPECT_EQ(block.sum_sq(1), 9.0);
}

TEST(Pack, SplitsByRoleScaleTargetAndMicroBatches) {
  Attempt attempt;
  attempt.measured = {measured(0), measured(1, Role::kParameter), measured(2), measured(3), measured(4)};
  attempt.measured[2].scale = 1024;
  attempt.measured[3].target = DType::kBf16;
  attempt.measured[4].micro_batches = 2;
  ReportPacker packer;
  const auto message = parse(packer.pack(attempt, {}));
  ASSERT_EQ(message.report().blocks_size(), 5);
  for (const auto& block : message.report().blocks()) EXPECT_EQ(block.count(), 1U);
}

TEST(Pack, SparseColumnsIdsAndNumel) {
  Attempt attempt;
  attempt.measured = {measured(1), measured(5), measured(9)};
  attempt.measured[1].record.nan = 2;
  attempt.measured[1].record.neg_inf = 1;
  attempt.measured[1].first_bad_micro = 0;
  attempt.measured[2].record.numel = 3;  // other than declared
  attempt.measured[2].record.zero = 3;
  attempt.measured[2].record.absmin_nonzero = kNan;
  ReportPacker packer;
  const auto message = parse(packer.pack(attempt, {}));
  const v1::RecordBlock& block = message.report().blocks(0);
  EXPECT_EQ(std::vector<std::uint32_t>(block.ids().begin(), block.ids().end()), (std::vector<std::uint32_t>{1, 5, 9}));
  EXPECT_EQ(std::vector<std::uint64_t>(block.numel().begin(), block.numel().end()), (std::vector<std::uint64_t>{4, 4, 3}));
  EXPECT_EQ(std::vector<std::uint64_t>(block.zero().begin(), block.zero().end()), (std::vector<std::uint64_t>{0, 0, 3}));
  ASSERT_EQ(block.nan_size(), 1);
  EXPECT_EQ(block.nan(0).index(), 1U);
  EXPECT_EQ(block.nan(0).count(), 2U);
  EXPECT_EQ(block.pos_inf_size(), 0);
  EXPECT_EQ(block.neg_inf(0).count(), 1U);
  ASSERT_EQ(block.first_bad_micro_size(), 1);
  EXPECT_EQ(block.first_bad_micro(0).micro(), 0U);
  EXPECT_TRUE(std::isnan(block.absmin_nonzero(2)));
}

TEST(Pack, ThinReportKeepsAllButBlocks) {
  Attempt attempt;
  attempt.seq = 3;
  attempt.loss = std::numeric_limits<double>::quiet_NaN();
  attempt.measured = {measured(0), measured(1, Role::kParameter)};
  attempt.scalers.push_back({0, 2.0, 1.0, 0, -1, {{0, 1.0, 1.0, 2}}});
  attempt.misuse.push_back({"update_missing", "detail", true});
  ReportPacker packer;
  const std::string full = packer.pack(attempt, {5, 6, 7});
  const std::string thin = thin_report(full);
  auto expected = parse(full);
  expected.mutable_report()->clear_blocks();
  EXPECT_EQ(parse(thin).SerializeAsString(), expected.SerializeAsString());
  EXPECT_TRUE(std::isnan(parse(thin).report().loss()));
  EXPECT_EQ(thin_report(thin), "");
}

TEST(Pack, TableHashFollowsItsDefinition) {
  TableHash hash;
  EXPECT_EQ(hash.value(), 0U);
  TensorInfo info;
  info.name = "w";
  info.role = Role::kGradient;
  info.dtype = DType::kFp16;
  info.numel = 0x0102030405060708;
  hash.add(info);
  std::uint64_t expected = 0xcbf29ce484222325ULL;
  for (const unsigned char byte : {0x77, 0, 1, 3, 8, 7, 6, 5, 4, 3, 2, 1}) expected = (expected ^ byte) * 0x100000001b3ULL;
  EXPECT_EQ(hash.value(), expected);
  EXPECT_EQ(hash.size(), 1U);
}

}  // namespace
}  // namespace scalewatch::client
