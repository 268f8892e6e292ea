// What the trainer says against what the server decodes.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "scalewatch/scalewatch.hpp"
#include "tests/unit/client/fake_server.h"

namespace scalewatch::client_test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

MonitorOptions options(const FakeServer& server) {
  MonitorOptions made;
  made.run = "run";
  made.server = server.address();
  return made;
}

TEST(Report, HandshakeSaysWhoTrains) {
  FakeServer server;
  MonitorOptions opened = options(server);
  opened.rank = 1;
  opened.world_size = 4;
  opened.compute_dtype = SCALEWATCH_BF16;
  opened.framework = "test";
  opened.job_id = "17";
  opened.labels = {{"team", "größe"}};
  Monitor monitor(opened);
  const auto scaler = monitor.add_scaler("main", "pytorch", {{"init_scale", 65536}});
  OptimizerOptions adam;
  adam.name = "adam";
  adam.class_name = "Adam";
  adam.scaler = scaler;
  adam.lr = 0.001;
  adam.state_dtypes = {SCALEWATCH_FP32, SCALEWATCH_FP32};
  monitor.add_optimizer(adam);
  monitor.add_tensor({"w", SCALEWATCH_PARAMETER, SCALEWATCH_FP16, 12, 3, "adam", "", ""});
  monitor.begin_attempt(5);
  monitor.end_attempt();
  ASSERT_TRUE(monitor.wait_durable(20'000));

  const auto messages = server.messages();
  ASSERT_GE(messages.size(), 3U);
  const v1::Hello& hello = messages[0].hello();
  EXPECT_EQ(hello.protocol_version(), 1U);
  EXPECT_EQ(hello.run(), "run");
  EXPECT_EQ(hello.rank(), 1U);
  EXPECT_EQ(hello.world_size(), 4U);
  EXPECT_EQ(hello.incarnation().size(), 16U);
  EXPECT_GT(hello.incarnation_order(), 0U);
  EXPECT_NE(hello.table_hash(), 0U);
  EXPECT_EQ(hello.table_size(), 1U);
  EXPECT_EQ(hello.compute_dtype(), v1::DTYPE_BF16);
  EXPECT_EQ(hello.framework(), "test");
  EXPECT_EQ(hello.job_id(), "17");
  EXPECT_EQ(hello.labels().at("team"), "größe");
  EXPECT_EQ(hello.scalers(0).policy(), "pytorch");
  EXPECT_EQ(hello.scalers(0).parameters().at("init_scale"), 65536);
  EXPECT_EQ(hello.optimizers(0).class_name(), "Adam");
  EXPECT_DOUBLE_EQ(hello.optimizers(0).lr(), 0.001);
  EXPECT_FALSE(hello.optimizers(0).has_beta1());
  EXPECT_EQ(hello.optimizers(0).state_dtypes_size(), 2);
  const v1::TableDelta& table = messages[1].table();
  EXPECT_EQ(table.version(), 1U);
  EXPECT_EQ(table.first_id(), 0U);
  ASSERT_EQ(table.infos_size(), 1);
  EXPECT_EQ(table.infos(0).name(), "w");
  EXPECT_EQ(table.infos(0).forward_index(), 3U);
  EXPECT_EQ(table.infos(0).optimizer(), "adam");
  EXPECT_EQ(messages[2].report().step(), 5);
}

TEST(Report, StatisticsScalerAndFacts) {
  FakeServer server;
  Monitor monitor(options(server));
  const auto scaler = monitor.add_scaler("default", "pytorch");
  const auto optimizer = monitor.add_optimizer({});
  const auto tensor = monitor.add_tensor({"g", SCALEWATCH_GRADIENT, SCALEWATCH_FP32, 8, 0, "", "", ""});
  monitor.set_phase(SCALEWATCH_TRAIN);
  monitor.misuse("clip_before_unscale", "detail", false);  // before the attempt: goes with the next
  monitor.begin_attempt(10);
  const float values[8] = {1, -4, 0, kNan, kInf, -kInf, 1e-9F, 70000};
  EXPECT_TRUE(monitor.observe(tensor, values, 8, 1));
  monitor.observe_scaler(scaler, 8, 4, 0);
  monitor.observe_optimizer(scaler, optimizer, 1, 1, SCALEWATCH_SKIPPED);
  monitor.observe_scaler(scaler, 8, 2, 0);  // said again: replaces
  monitor.set_loss(kNan);
  monitor.set_lr(0.5);
  monitor.set_grad_norm(kInf, true, false);
  monitor.set_input_non_finite(true);
  monitor.end_attempt();

  const auto reports = server.reports(1);
  ASSERT_EQ(reports.size(), 1U);
  const v1::Report& report = reports[0];
  ASSERT_EQ(report.blocks_size(), 1);
  const v1::RecordBlock& block = report.blocks(0);
  EXPECT_EQ(block.role(), v1::ROLE_GRADIENT);
  EXPECT_EQ(block.target(), v1::DTYPE_FP16);
  EXPECT_EQ(block.measured_under_scale(), 1);
  EXPECT_EQ(block.min(0), -4.0F);
  EXPECT_EQ(block.max(0), 70000.0F);
  EXPECT_EQ(block.absmin_nonzero(0), 1e-9F);
  EXPECT_EQ(block.sum(0), 69997.0);
  EXPECT_EQ(block.zero(0), 1U);
  EXPECT_EQ(block.flushed(0), 1U);
  EXPECT_EQ(block.nan(0).count(), 1U);
  EXPECT_EQ(block.pos_inf(0).count(), 1U);
  EXPECT_EQ(block.neg_inf(0).count(), 1U);
  EXPECT_EQ(block.over(0).count(), 1U);
  EXPECT_EQ(block.first_bad_micro(0).micro(), 0U);
  ASSERT_EQ(report.scalers_size(), 1);
  EXPECT_EQ(report.scalers(0).scale_before(), 8);
  EXPECT_EQ(report.scalers(0).scale_after(), 2);
  EXPECT_EQ(report.scalers(0).growth_tracker(), 0U);
  EXPECT_FALSE(report.scalers(0).has_hysteresis());
  ASSERT_EQ(report.scalers(0).optimizers_size(), 1);
  EXPECT_EQ(report.scalers(0).optimizers(0).outcome(), v1::OUTCOME_SKIPPED);
  EXPECT_TRUE(std::isnan(report.loss()));
  EXPECT_EQ(report.lr(), 0.5);
  EXPECT_TRUE(std::isinf(report.grad_norm()));
  EXPECT_TRUE(report.grad_norm_scaled());
  EXPECT_TRUE(report.input_non_finite());
  EXPECT_EQ(report.phase(), v1::PHASE_TRAIN);
  ASSERT_EQ(report.misuse_size(), 1);
  EXPECT_EQ(report.misuse(0).kind(), "clip_before_unscale");
  EXPECT_GT(report.client().measure_ns(), 0U);
}

TEST(Report, MicroBatchesMerge) {
  FakeServer server;
  Monitor monitor(options(server));
  const auto tensor = monitor.add_tensor({"g", SCALEWATCH_GRADIENT, SCALEWATCH_FP32, 2, 0, "", "", ""});
  const auto once = monitor.add_tensor({"h", SCALEWATCH_GRADIENT, SCALEWATCH_FP32, 2, 1, "", "", ""});
  monitor.begin_attempt(1);
  const float a[2] = {1, 2};
  const float b[2] = {-3, kNan};
  const float c[2] = {kInf, 0};
  monitor.observe(tensor, a, 2, 16);
  monitor.observe(tensor, b, 2, 16);
  monitor.observe(tensor, c, 2, 16);
  monitor.observe(once, a, 2, 16);
  EXPECT_FALSE(monitor.observe(tensor, a, 2, 8));  // the scale changed between accumulated backwards
  monitor.end_attempt();
  const auto reports = server.reports(1);
  ASSERT_EQ(reports.size(), 1U);
  ASSERT_EQ(reports[0].blocks_size(), 2);
  const v1::RecordBlock& merged = reports[0].blocks(reports[0].blocks(0).micro_batches() == 3 ? 0 : 1);
  EXPECT_EQ(merged.micro_batches(), 3U);
  EXPECT_EQ(merged.numel_size(), 0);  // 2 elements, 3 times
  EXPECT_EQ(merged.min(0), -3.0F);
  EXPECT_EQ(merged.sum(0), 0.0);
  EXPECT_EQ(merged.zero(0), 1U);
  EXPECT_EQ(merged.nan(0).count(), 1U);
  EXPECT_EQ(merged.pos_inf(0).count(), 1U);
  ASSERT_EQ(merged.first_bad_micro_size(), 1);
  EXPECT_EQ(merged.first_bad_micro(0).micro(), 1U);
}

TEST(Report, StridedDataAndRecordsMadeElsewhere) {
  FakeServer server;
  Monitor monitor(options(server));
  const auto column = monitor.add_tensor({"column", SCALEWATCH_PARAMETER, SCALEWATCH_FP32, 2, 0, "", "", ""});
  const auto device = monitor.add_tensor({"device", SCALEWATCH_PARAMETER, SCALEWATCH_FP32, 9, 1, "", "", ""});
  monitor.begin_attempt(1);
  const float matrix[4] = {1, 2, 3, 4};
  const std::uint64_t sizes[1] = {2};
  const std::int64_t strides[1] = {2};
  EXPECT_EQ(scalewatch_observe_strided(monitor.handle(), column, matrix + 1, 1, sizes, strides, 1, 0), SCALEWATCH_OK);
  scalewatch_record record{};
  record.size = sizeof record;
  record.numel = 9;
  record.nan = 9;
  record.min = record.max = record.absmin_nonzero = kNan;
  EXPECT_EQ(scalewatch_observe_record(monitor.handle(), device, &record, 1, 0), SCALEWATCH_OK);
  monitor.end_attempt();
  const auto reports = server.reports(1);
  ASSERT_EQ(reports.size(), 1U);
  ASSERT_EQ(reports[0].blocks_size(), 2);  // what is not finite stands apart
  const v1::RecordBlock& bad = reports[0].blocks(0);
  EXPECT_EQ(bad.first_id(), device);
  EXPECT_EQ(bad.nan(0).count(), 9U);
  EXPECT_TRUE(std::isnan(bad.max(0)));
  EXPECT_EQ(reports[0].blocks(1).first_id(), column);
  EXPECT_EQ(reports[0].blocks(1).sum(0), 6.0);
}

TEST(Report, TableGrowsByDeltas) {
  FakeServer server;
  Monitor monitor(options(server));
  const auto add = [&](const char* name) {
    return monitor.add_tensor({name, SCALEWATCH_ACTIVATION, SCALEWATCH_FP32, 1, 0, "", "", ""});
  };
  const float one = 1;
  const auto a = add("a");
  monitor.begin_attempt(1);
  monitor.observe(a, &one, 1);
  monitor.end_attempt();
  ASSERT_TRUE(monitor.wait_durable(20'000));
  const auto b = add("b");
  monitor.begin_attempt(2);
  monitor.observe(b, &one, 1);
  monitor.begin_attempt(3);  // ends attempt 2
  monitor.end_attempt();
  ASSERT_TRUE(monitor.wait_durable(20'000));
  std::vector<v1::TableDelta> tables;
  for (const auto& message : server.messages()) {
    if (message.has_table()) tables.push_back(message.table());
  }
  ASSERT_EQ(tables.size(), 2U);
  EXPECT_EQ(tables[1].version(), 2U);
  EXPECT_EQ(tables[1].first_id(), 1U);
  EXPECT_EQ(tables[1].infos(0).name(), "b");
  EXPECT_EQ(server.reports(3).back().step(), 3);
}

}  // namespace
}  // namespace scalewatch::client_test
