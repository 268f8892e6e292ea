// Packed messages as generated code reads them.
#include "client_lib/src/pack.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>

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

// What the trainer's thread hands over.
struct Posted {
  Sheet sheet;
  Attempt attempt;
  explicit Posted(Sheet measured = {}) : sheet(std::move(measured)) { attempt.sheet = &sheet; }
  std::string pack(std::uint64_t seq = 1) { return ReportPacker().pack(attempt, seq, {}, {}); }
};

std::uint32_t records(const v1::Report& report) {
  std::uint32_t count = 0;
  for (const auto& block : report.blocks()) count += block.count();
  return count;
}

TEST(Pack, DenseBlockLeavesOutWhatItMay) {
  Posted posted({measured(2), measured(1), measured(3)});  // any order in
  posted.attempt.number = 7;
  posted.attempt.step = -3;
  const auto message = parse(posted.pack(9));
  const v1::Report& report = message.report();
  EXPECT_EQ(report.seq(), 9U);
  EXPECT_EQ(report.attempt(), 7U);
  EXPECT_EQ(report.statistics_lost(), v1::LOSS_CAUSE_UNSPECIFIED);
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
  Posted posted({measured(0), measured(1, Role::kParameter), measured(2), measured(3), measured(4)});
  posted.sheet[2].scale = 1024;
  posted.sheet[3].target = DType::kBf16;
  posted.sheet[4].micro_batches = 2;
  const auto message = parse(posted.pack());
  ASSERT_EQ(message.report().blocks_size(), 5);
  for (const auto& block : message.report().blocks()) EXPECT_EQ(block.count(), 1U);
}

// A histogram that is not whole, or of a tensor that is not finite, stays back; so thinned reports have none.
TEST(Pack, HistogramsOfWholeFiniteRecordsOnly) {
  Posted posted({measured(0), measured(1), measured(2), measured(3), measured(4)});
  Histograms histograms;
  histograms.slots.resize(5);
  for (std::uint32_t i = 0; i < 5; ++i) {
    posted.sheet[i].histogram = i;
    posted.sheet[i].histogram_micros = 1;
    histograms.slots[i].counts[ExponentCounts::bin(-7)] = 3;
    histograms.slots[i].counts[ExponentCounts::bin(-5)] = i;
  }
  posted.sheet[1].record.nan = 1;
  posted.sheet[2].micro_batches = 2;
  posted.sheet[3].histogram = kNoHistogram;
  posted.attempt.histograms = &histograms;
  const std::string bytes = posted.pack();
  std::uint32_t found = 0;
  const auto message = parse(bytes);  // blocks: 1 that is bad; 0, 3 and 4; 2
  for (const auto& block : message.report().blocks()) {
    for (const auto& histogram : block.exponents()) {
      ++found;
      ASSERT_EQ(block.count(), 3U);
      EXPECT_EQ(histogram.index(), histogram.counts_size() == 1 ? 0U : 2U);
      EXPECT_EQ(histogram.first_exponent(), -7);
      EXPECT_EQ(histogram.counts(0), 3U);
      if (histogram.counts_size() == 3) {
        EXPECT_EQ(histogram.counts(2), 4U);
      }
    }
  }
  EXPECT_EQ(found, 2U);
  const auto thinned = parse(thin_report(bytes, Fullness::kBadOnly, LossCause::kBufferFull));
  ASSERT_EQ(thinned.report().blocks_size(), 1);
  EXPECT_EQ(thinned.report().blocks(0).exponents_size(), 0);
}

TEST(Pack, HistogramsAreBoundedInBytes) {
  constexpr std::uint32_t kTensors = 2000;
  Sheet sheet;
  Histograms histograms;
  histograms.slots.resize(kTensors);
  for (std::uint32_t i = 0; i < kTensors; ++i) {
    sheet.push_back(measured(i));
    sheet.back().histogram = i;
    sheet.back().histogram_micros = 1;
    histograms.slots[i].counts.fill(std::uint64_t{1} << 32U);
  }
  Posted posted(std::move(sheet));
  posted.attempt.histograms = &histograms;
  const std::string bytes = posted.pack();
  EXPECT_LT(bytes.size(), 2U << 20U);
  EXPECT_GT(parse(bytes).report().blocks(0).exponents_size(), 100);
}

TEST(Pack, IdsAndNumelWhereTheyAreNotTheUsual) {
  Posted posted({measured(1), measured(5), measured(9)});
  posted.sheet[2].record.numel = 3;  // other than declared
  posted.sheet[2].record.zero = 3;
  posted.sheet[2].record.absmin_nonzero = kNan;
  const auto message = parse(posted.pack());
  const v1::RecordBlock& block = message.report().blocks(0);
  EXPECT_EQ(std::vector<std::uint32_t>(block.ids().begin(), block.ids().end()), (std::vector<std::uint32_t>{1, 5, 9}));
  EXPECT_EQ(std::vector<std::uint64_t>(block.numel().begin(), block.numel().end()), (std::vector<std::uint64_t>{4, 4, 3}));
  EXPECT_EQ(std::vector<std::uint64_t>(block.zero().begin(), block.zero().end()), (std::vector<std::uint64_t>{0, 0, 3}));
  EXPECT_TRUE(std::isnan(block.absmin_nonzero(2)));
}

TEST(Pack, NonFiniteTensorsHaveTheirOwnBlock) {
  Posted posted({measured(1), measured(5), measured(9)});
  posted.sheet[1].record.nan = 2;
  posted.sheet[1].record.neg_inf = 1;
  posted.sheet[1].first_bad_micro = 0;
  const auto message = parse(posted.pack());
  ASSERT_EQ(message.report().blocks_size(), 2);
  const v1::RecordBlock& block = message.report().blocks(0);
  EXPECT_EQ(block.first_id(), 5U);
  ASSERT_EQ(block.nan_size(), 1);
  EXPECT_EQ(block.nan(0).count(), 2U);
  EXPECT_EQ(block.pos_inf_size(), 0);
  EXPECT_EQ(block.neg_inf(0).count(), 1U);
  ASSERT_EQ(block.first_bad_micro_size(), 1);
  EXPECT_EQ(block.first_bad_micro(0).micro(), 0U);
  EXPECT_EQ(message.report().blocks(1).nan_size(), 0);
  EXPECT_EQ(message.report().blocks(1).count(), 2U);
}

TEST(Pack, ThinReportKeepsAllButFullStatistics) {
  Posted posted({measured(0), measured(1, Role::kParameter), measured(2)});
  posted.sheet[2].record.nan = 1;
  posted.attempt.loss = std::numeric_limits<double>::quiet_NaN();
  posted.attempt.scalers.push_back({0, 2.0, 1.0, 0, -1});
  posted.attempt.optimizers.push_back({0, 0, 1.0, 1.0, 2});
  Misuse misuse;
  misuse.kind = {"update_missing"};
  const std::string full = ReportPacker().pack(posted.attempt, 3, {&misuse, 1}, {5, 6, 7});
  const std::string thin = thin_report(full, Fullness::kBadOnly, LossCause::kBufferFull);
  auto expected = parse(full);
  ASSERT_EQ(expected.report().blocks_size(), 3);
  expected.mutable_report()->mutable_blocks()->DeleteSubrange(1, 2);
  expected.mutable_report()->set_statistics_lost(v1::LOSS_CAUSE_BUFFER_FULL);
  EXPECT_EQ(parse(thin).SerializeAsString(), expected.SerializeAsString());
  EXPECT_EQ(parse(thin).report().blocks(0).first_id(), 2U);
  EXPECT_EQ(parse(thin).report().misuse(0).kind(), "update_missing");
  EXPECT_TRUE(std::isnan(parse(thin).report().loss()));
  EXPECT_EQ(thin_report(thin, Fullness::kBadOnly, LossCause::kBufferFull), "");  // as it is
  const auto bare = parse(thin_report(thin, Fullness::kNone, LossCause::kTooLarge));
  EXPECT_EQ(bare.report().blocks_size(), 0);
  EXPECT_EQ(bare.report().scalers_size(), 1);
  EXPECT_EQ(bare.report().statistics_lost(), v1::LOSS_CAUSE_TOO_LARGE);
}

TEST(Pack, OfAWaveOfNanBothEndsSurviveThinning) {
  Sheet sheet;
  for (std::uint32_t id = 0; id < 300; ++id) {
    sheet.push_back(measured(id));
    sheet.back().record.nan = 1;
  }
  Posted posted(std::move(sheet));
  const std::string full = posted.pack();
  EXPECT_EQ(records(parse(full).report()), 300U);
  const auto thin = parse(thin_report(full, Fullness::kBadOnly, LossCause::kReconnect));
  ASSERT_EQ(thin.report().blocks_size(), 1);
  const auto& ids = thin.report().blocks(0).ids();
  ASSERT_EQ(ids.size(), 64);
  EXPECT_EQ(ids[0], 0U);
  EXPECT_EQ(ids[31], 31U);
  EXPECT_EQ(ids[32], 268U);
  EXPECT_EQ(ids[63], 299U);
}

TEST(Pack, SendsWhatIsDueAndWhatIsNotFinite) {
  Posted posted({measured(0), measured(1), measured(2), measured(3)});
  posted.attempt.number = 40;
  posted.sheet[0].send = SendMode::kAlways;
  posted.sheet[1].send = SendMode::kIfFoundInf;
  posted.sheet[2].send = SendMode::kIfBad;
  posted.sheet[3].send = SendMode::kIfBad;
  posted.sheet[3].record.pos_inf = 1;
  ReportPacker packer;
  EXPECT_EQ(records(parse(packer.pack(posted.attempt, 1, {}, {})).report()), 2U);
  const auto left_out = parse(with_seq(packer.pack_left_out(posted.attempt), 8)).report();
  EXPECT_EQ(left_out.seq(), 8U);
  EXPECT_EQ(left_out.attempt(), 40U);
  EXPECT_TRUE(left_out.retrospective());
  EXPECT_EQ(records(left_out), 2U);

  posted.attempt.optimizers.push_back({0, 0, 0.0, 1.0, 2});  // decided Inf
  EXPECT_EQ(records(parse(packer.pack(posted.attempt, 1, {}, {})).report()), 3U);
  for (Measured& m : posted.sheet) m.send = SendMode::kAlways;
  EXPECT_EQ(packer.pack_left_out(posted.attempt), "");
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
