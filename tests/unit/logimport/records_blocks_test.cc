// Trainers that print a record over several lines or without names, and some whose lines a general reader would misread.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/logimport/read_records.h"

namespace scalewatch::logimport {
namespace {

TEST(Composer, ABlockIsARecordAndEvaluationsAreNone) {
  const auto all = read_records(
      "[epoch=0][batch=2/400]:\n\t Train time/batch: 1\n\t Train loss/train/total: 8.5\n\t Train l2_norm/grad/global: 1.5\n"
      "\t Train lr-DecoupledAdamW/group0: 0.0001\n"
      "[epoch=0][batch=3/400]:\n\t Train time/batch: 2\n\t Train loss/train/total: nan\n"
      "[Eval batch=1/10] Eval on eval data:\n\t Eval metrics/eval/CrossEntropy: 9.0\n");
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].format, "composer");
  EXPECT_EQ(all[0].line, 1U);
  EXPECT_EQ(all[0].batch, 2);
  EXPECT_EQ(all[0].loss, 8.5);
  EXPECT_EQ(all[0].grad_norm, 1.5);
  EXPECT_EQ(all[0].lr, 0.0001);
  EXPECT_EQ(all[1].batch, 3);
  EXPECT_TRUE(std::isnan(*all[1].loss));
}

TEST(Coqui, ABlockIsARecord) {
  const auto all = read_records(
      "\n   --> STEP: 49/300 -- GLOBAL_STEP: 3049\n     | > loss_disc: 2.5  (2.25)\n     | > loss_0: 2.5  (2.25)\n"
      "     | > loss_mel: 17.5  (17.5)\n     | > amp_scaler: 64.00000  (787.5)\n     | > loss_1: nan  (30.5)\n\n"
      "   --> STEP: 50/300 -- GLOBAL_STEP: 3050\n     | > loss: 2.0  (2.5)\n     | > step_time: 0.5  (0.5)\n");
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].format, "coqui");
  EXPECT_EQ(all[0].step, 3049);
  EXPECT_EQ(all[0].scale, 64);
  EXPECT_TRUE(std::isnan(*all[0].loss));
  EXPECT_EQ(all[1].step, 3050);
  EXPECT_EQ(all[1].loss, 2);
}

TEST(NumberLists, TheLastTwoAreStepAndLearningRate) {
  const auto all = read_records(
      "2024-01-01 10:00:00,000\tmodel\tINFO\tTrain Epoch: 4 [39%]\n"
      "2024-01-01 10:00:00,000\tmodel\tINFO\t[2.5, 1.5, 20.0, 2400, 0.0002]\n"
      "Train Epoch: 4 [40%]\n[1, 2, 3]\n");
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].step, 2400);
  EXPECT_EQ(all[0].loss, 24);
  EXPECT_EQ(all[0].lr, 0.0002);
}

TEST(NumberColumns, AreStepAndLossWhereTheFileSpeaksOfTraining) {
  std::string rows;
  for (int step = 10; step <= 80; step += 10) rows += std::to_string(step) + (step < 70 ? " 2.5\n" : " nan\n");
  const auto all = read_records(rows + "Saving the model\n90 nan\n");
  ASSERT_EQ(all.size(), 9U);
  EXPECT_EQ(all[0].format, "number_columns");
  EXPECT_EQ(all[0].step, 10);
  EXPECT_EQ(all[0].loss, 2.5);
  EXPECT_EQ(all[8].line, 10U);
  EXPECT_TRUE(read_records(rows).empty()) << "two columns may be anything";
  EXPECT_TRUE(read_records("1 2.5\n7 0.5\n9 1.5\n30 2.5\n31 3.5\n90 1.5\nthe model\n").empty()) << "no steps";
}

TEST(OpenNmt, TheCrossEntropyIsTheLoss) {
  const auto all = read_records(
      "[2024-01-01 10:00:00,000 INFO] Step 550/5000; acc:  51.25; ppl:  8.43; xent: 2.25; lr: 0.0005; 1320/1445 tok/s;  195 "
      "sec\n"
      "Epoch  1,   600/3000; acc:   3.99; ppl: nan; xent:   nan; 3438 src tok/s; 3517 tgt tok/s;   9823 s elapsed\n");
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].step, 550);
  EXPECT_EQ(all[0].loss, 2.25);
  EXPECT_EQ(all[0].lr, 0.0005);
  EXPECT_EQ(all[1].batch, 600);
  EXPECT_TRUE(std::isnan(*all[1].loss));
}

TEST(MindSpore, TheLossMonitorsStepIsOfTheEpoch) {
  const auto all = read_records("epoch: 2 step: 50, loss is 2.5\nepoch: 2 step: 51, loss is nan\n");
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].batch, 50);
  EXPECT_FALSE(all[0].step);
  EXPECT_TRUE(std::isnan(*all[1].loss));
}

TEST(WeNet, ABatchIsOfAnEpochAndLossesAreOfRanks) {
  const auto all =
      read_records("2024-01-01 10:00:00,000 DEBUG TRAIN Batch 4/300 loss 12.5 loss_att 10.5 loss_ctc 16.5 lr 0.0005 rank 1\n");
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].epoch, 4);
  EXPECT_EQ(all[0].batch, 300);
  EXPECT_EQ(all[0].rank, 1U);
  EXPECT_EQ(all[0].lr, 0.0005);
}

TEST(Clu, TheNumberInBracketsIsTheStep) {
  const auto all = read_records(
      "I0501 10:00:00.123456 140000000000000 logging_writer.py:48] [300] learning_rate=0.5, loss=2.5, scale=1024.0\n"
      "I0501 10:00:01.123456 140000000000000 logging_writer.py:48] [300] eval_loss=2.25\n");
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].step, 300);
  EXPECT_EQ(all[0].loss, 2.5);
  EXPECT_EQ(all[0].scale, 1024);
  EXPECT_EQ(all[1].valid_loss, 2.25);
  EXPECT_FALSE(all[1].loss);
}

TEST(YoloTable, RowsStandBehindALaunchersPrefix) {
  const auto all = read_records(
      "[rank0]:      Epoch   gpu_mem       box       obj       cls    labels  img_size\n"
      "[rank0]:      3/100     4.5G       0.5      0.25       nan       130       640: 100%|####| 50/50 [00:20<00:00,  "
      "2.4it/s]\n");
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].epoch, 3);
  EXPECT_TRUE(std::isnan(*all[0].loss_part));
}

TEST(KeyValue, ALevelInBracketsIsNoKerasBar) {
  const auto all = read_records(
      "[2024-01-01 10:00:00,000] [    INFO] - global step 200, loss: nan, learning rate: 0.1, loss_scaling: 1024.0\n");
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].loss_span, Reading::Span::kUnknown);
  EXPECT_EQ(all[0].scale, 1024);
}

TEST(KeyValue, ALossAmongOtherNumbersNeedsNoPlaceButAShareOfPacketsIsNone) {
  std::string log;
  for (int i = 0; i < 4; ++i) log += "steps_per_s=443.5, age=4.9, reward=-0.5, loss=0.25, entropy=7.5\n";
  EXPECT_EQ(read_records(log).size(), 4U);
  std::string net;
  for (int i = 0; i < 4; ++i) net += "sent=4, received=4, lost=0, loss=0, rtt=9.5\n";
  EXPECT_TRUE(read_records(net).empty());
}

}  // namespace
}  // namespace scalewatch::logimport
