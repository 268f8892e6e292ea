// Trainers that leave updates out or make them all the same, blocks and tables of single numbers, and lines that mislead.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/logimport/read_records.h"

namespace scalewatch::logimport {
namespace {

using Kind = Reading::Kind;

TEST(Bars, ARecordIsOfTheNearestBarBeforeIt) {
  const std::string bars = "  3%|#    | 3/100 [00:03<01:37,  1.00it/s]  4%|#    | 4/100 [00:04<01:36,  1.00it/s]";
  const auto all = read_text(bars + "{'loss': 2.5, 'grad_norm': 1.0, 'learning_rate': 0.1, 'epoch': 0.1}\n");
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].kind, Kind::kProgress);
  EXPECT_EQ(all[0].step, 3);
  EXPECT_EQ(all[1].kind, Kind::kRecord);
  EXPECT_EQ(all[1].step, 4);
}

// A file that lost its carriage returns: bars, the record of the last of them, and bars again.
TEST(Bars, OneLineHoldsManyOfThemAndARecord) {
  const auto all = read_text(
      "Loading checkpoint shards:  33%|#3   | 1/3 [00:01<00:02,  1.39s/it]Loading checkpoint shards: 100%|####| 3/3 "
      "[00:02<00:00,  1.07it/s]\n"
      "  0%|     | 9/900 [00:14<2:13:35,  1.65s/it]  1%|     | 10/900 [00:16<2:14:42,  1.67s/it]                       "
      "    {'loss': 1.5, 'grad_norm': 1.2, 'learning_rate': 9.9e-05, 'entropy': 1.5, 'num_tokens': 52034.0, 'epoch': 0.01}\n"
      "  1%|     | 10/900 [00:16<2:14:42,  1.67s/it]  1%|     | 11/900 [00:17<2:12:22,  1.64s/it]\n");
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[1].kind, Kind::kRecord);
  EXPECT_EQ(all[1].step, 10);
  EXPECT_EQ(all[1].steps_total, 900);
  EXPECT_EQ(all[1].loss, 1.5);
  EXPECT_EQ(all[3].step, 11);
}

TEST(KeyValue, ASentenceNamesItsNumber) {
  const auto all = read_records(
      "Epoch 0, Step 25, total used time 7.17 (s), avg loss so far is 0.1097\n"
      "Epoch 0, Step 50, total used time 14.05 (s), avg loss so far is nan\n"
      "Epoch 0, val loss is 0.0477, val mse is 0.0242.\n");
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].step.value_or(*all[0].batch), 25);
  EXPECT_EQ(all[0].loss, 0.1097);
  EXPECT_EQ(all[0].loss_span, Reading::Span::kTotal);
  EXPECT_TRUE(std::isnan(*all[1].loss));
  EXPECT_EQ(all[2].valid_loss, 0.0477);
  EXPECT_FALSE(all[2].loss);
}

TEST(KeyValue, ProseAboutALossIsNoRecord) {
  EXPECT_TRUE(read_records("If the loss is 0.5 at step 100 or so, you should try what the authors of the paper did for it.\n"
                           "It took 3 weeks until the loss was 2 times as low as in epoch 1 of the run before that one.\n")
                  .empty());
}

TEST(Pairs, ACountOfNansIsNoNan) {
  const auto all = read_records(
      " samples/sec: 4.2 | iteration       30/  320000 | elapsed time per iteration (ms): 412.0 | learning rate: 1.200E-05 | "
      "lm_loss: 1.041E+01 | loss scale: 65536.0 | number of skipped iterations:   2 | number of nan iterations:   1 |\n");
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].skipped, 2U);
  EXPECT_EQ(all[0].nan_skipped, 1U);
  EXPECT_EQ(all[0].loss, 10.41);
}

TEST(KeyValue, ACallThatGivesTheScaleNamesIt) {
  for (const char* key : {"scaler.get_scale()", "scaler.get_scale", "get_scale()", "amp_scaler.get_scale()"}) {
    const auto all =
        read_records("iter=3 | loss=2.000 | " + std::string(key) + "=32768.0\niter=4 | loss=1.900 | " + key + "=32768.0\n");
    ASSERT_EQ(all.size(), 2U) << key;
    EXPECT_EQ(all[0].scale, 32768) << key;
    EXPECT_EQ(all[0].loss, 2) << key;
  }
}

TEST(RankDifferences, ReasoningAboutRanksIsNoMessage) {
  for (const char* prose :
       {"If the loss scale differs between rank 0 and rank 1, you should reduce found_inf first.",
        "The losses of rank 0 and rank 1 differ because we shuffle the data with another seed on each of them.",
        "We think that the gradients of ranks 0 and 1 can differ when the sampler is not distributed",
        "Note: parameters on rank 2 may differ from those of rank 3 until the first broadcast, which is why we wait"}) {
    EXPECT_TRUE(read_text(std::string(prose) + "\n").empty()) << prose;
  }
  for (const char* message : {"AssertionError: parameters differ between rank 0 and rank 3, this should not happen",
                              "loss scale mismatch: rank0=1024 rank3=512",
                              "[W] step 300: checksum of 'blocks.2.fc.weight' not equal on ranks 1 and 5"}) {
    const auto all = read_text(std::string(message) + "\n");
    ASSERT_EQ(all.size(), 1U) << message;
    EXPECT_EQ(all[0].kind, Kind::kRanksDiffer);
  }
}

TEST(SkippedUpdates, AreSkips) {
  for (const char* line : {"(trainer:617) WARNING: The grad norm is nan. Skipping updating the model.",
                           "(asr:132) WARNING: grad norm is nan. Do not update model.",
                           "(WorkerDict pid=31) WARN: rank 0 grad_norm is not finite: inf",
                           "WARN: grad_norm is not finite: nan", "colossalai - colossalai - INFO: Found overflow. Skip step",
                           "[WARNING] overflow, drop step, loss scale adjust to 512.0"}) {
    const auto all = read_text(std::string(line) + "\n");
    ASSERT_EQ(all.size(), 1U) << line;
    EXPECT_EQ(all[0].kind, Kind::kSkip) << line;
  }
  for (const char* code :
       {R"(logging.warning(f"The grad norm is {grad_norm}. Skipping updating the model."))",
        R"(print(f"WARN: grad_norm is not finite: {grad_norm}"))", R"(self._logger.info(f"Found overflow. Skip step"))"}) {
    EXPECT_TRUE(read_text(std::string(code) + "\n").empty()) << code;
  }
}

TEST(SkippedUpdates, CountedInARow) {
  const auto all = read_text("Exception: Skipped 50 iterations in a row due to Overflow - Exiting training.\n");
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].skipped, 50U);
  EXPECT_EQ(all[0].attempts_per_record, 50U);
}

TEST(MindYolo, UpdatesDespiteOverflow) {
  const auto all = read_text("[WARNING] overflow, still update, loss scale adjust to 1024.0\n");
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].skipped, 0U);
  EXPECT_TRUE(std::isinf(*all[0].grad_norm));
  EXPECT_EQ(all[0].scale, 1024);
}

TEST(DeepSpeed, PipelineSteps) {
  const auto all = read_text("steps: 228 loss: nan iter time (s): 34.890 samples/sec: 73.373\n");
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].step, 228);
  EXPECT_TRUE(std::isnan(*all[0].loss));
}

TEST(Blocks, RslRl) {
  const auto all =
      read_text("  \x1b[1m Learning iteration 12/300 \x1b[0m\n\n   Value function loss: inf\n  Surrogate loss: 0.0\n");
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].step, 12);
  EXPECT_TRUE(std::isinf(*all[1].loss_part));
}

TEST(RowTable, OneNumberARow) {
  const std::string table =
      "-----------------------------\n| time/           |         |\n|    iterations   | 7       |\n| train/          |        "
      " |\n"
      "|    loss         | nan     |\n|    value_loss   | 63.7    |\n-----------------------------\n";
  for (const std::string& text : {table, std::string("[rank0]: ") + table}) {
    const auto all = read_records(text);
    ASSERT_EQ(all.size(), 1U);
    EXPECT_EQ(all[0].step, 7);
    EXPECT_TRUE(std::isnan(*all[0].loss));
  }
  // Results of an environment are no loss.
  EXPECT_TRUE(read_records("--------------------\n| ep_rewmean | nan |\n| iterations | 7   |\n--------------------\n").empty());
}

TEST(KeyValue, WordsInBracketsSayWhatALineIsAbout) {
  const auto all = read_records(
      "Epoch 1 [TRAIN] progress 0/2754 loss 0.610886 acc 0.894737\nEpoch 1 [CV] progress 10/341 loss nan acc 0.714286\n");
  ASSERT_EQ(all.size(), 2U);
  EXPECT_FALSE(all[0].valid_loss);
  EXPECT_FALSE(all[1].loss);
  EXPECT_TRUE(std::isnan(*all[1].valid_loss));
}

TEST(KeyValue, ADashBetweenTwoPartsIsNoOption) {
  EXPECT_EQ(read_records("train.py:7 in log -- step=642 loss=2.17 lr=9.8e-05 loss_scale=16384.0\n").size(), 1U);
  EXPECT_TRUE(read_records("train.py --step 642 loss=2.17 lr=9.8e-05\n").empty());
}

}  // namespace
}  // namespace scalewatch::logimport
