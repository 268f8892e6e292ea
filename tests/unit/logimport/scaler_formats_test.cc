// Lines of scalers and detectors: each fires with any prefix around it and wherever it stands in a line; look-alikes do not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "server/logimport/format.h"
#include "tests/unit/logimport/read_text.h"

namespace scalewatch::logimport {
namespace {

using Kind = Reading::Kind;

struct Line {
  std::string_view text;
  Kind kind;
  std::string_view policy;
  double before = -1;  // -1: not printed
  double after = -1;
};

constexpr Line kLines[] = {
    {"Gradient overflow.  Skipping step, loss scaler 1 reducing loss scale to 1e-316", Kind::kSkip, "apex_amp", -1, 1e-316},
    {"Gradient overflow.  Skipping step, reducing loss scale to 4096.0", Kind::kSkip, "apex_amp", -1, 4096},
    {"OVERFLOW! Skipping step. Attempted loss scale: 4096.0", Kind::kSkip, "apex_fp16_optimizer", 4096},
    {"OVERFLOW! Skipping step. Attempted loss scale: 4096, reducing to 2048.0", Kind::kSkip, "apex_fp16_optimizer", 4096, 2048},
    {"[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 64, reducing to 32", Kind::kSkip, "deepspeed", 64, 32},
    {"[deepscale] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 64.0, reducing to 32.0", Kind::kSkip, "deepspeed", 64,
     32},
    {"[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 64, but hysteresis is 2. Reducing hysteresis to 1",
     Kind::kHeldSkip, "deepspeed", 64},
    {"Overflow detected. Skipping step. Attempted loss scale: 8.0, reducing to 4.0", Kind::kSkip, "deepspeed_fused", 8, 4},
    {"[deepspeed] fp16 dynamic loss scale overflow! Skipping step. Attempted loss scale: 8, reducing to 4", Kind::kSkip,
     "deepspeed_unfused", 8, 4},
    {"Increasing dynamic loss scale from 512.0 to 1024.0", Kind::kGrowth, "deepspeed_fused", 512, 1024},
    {"Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.", Kind::kFatal, "deepspeed"},
    {"NOTE: gradient overflow detected, ignoring gradient, setting loss scale to: 0.25", Kind::kSkip, "fairseq", -1, 0.25},
    {"NOTE: overflow detected, setting loss scale to: 64.0", Kind::kSkip, "fairseq", -1, 64},
    {"| WARNING: overflow detected, setting loss scale to: 64.0", Kind::kSkip, "fairseq", -1, 64},
    {"AMP: overflow detected, setting scale to to 64.0", Kind::kSkip, "pytorch", -1, 64},
    {"FloatingPointError: Minimum loss scale reached (0.0001). Your loss is probably exploding.", Kind::kFatal, "fairseq"},
    {"Grad scale is small: 0.0078125", Kind::kScale, "pytorch"},
    {"DLL 2020-05-18 05:22:01.907879 - PARAMETER loss_scale : 1024.0", Kind::kSkip, "apex_amp", -1, 1024},
    {"Overflow occurs, the loss scale is adjusted to 1024.0", Kind::kSkip, "colossalai", -1, 1024},
    {"No overflow for consecutive 1000 steps, the loss scale is adjusted to 2048.0", Kind::kGrowth, "colossalai", -1, 2048},
    {"Found inf or nan, current scale is: 32768.0, decrease to: 32768.0*0.5", Kind::kSkip, "paddle", 32768, 16384},
    {"RuntimeError: Dynamic loss scale Continuous overflow: 1001", Kind::kFatal, "mindspore"},
    {"Using static loss scale of: 128", Kind::kScale, ""},
    {"RuntimeError: unscale_() has already been called on this optimizer since the last update().", Kind::kMisuse, "pytorch"},
    {"ValueError: Attempting to unscale FP16 gradients.", Kind::kMisuse, "pytorch"},
    {"AssertionError: No inf checks were recorded for this optimizer.", Kind::kMisuse, "pytorch"},
    {"AssertionError: Attempted step but _scale is None.  This may indicate your script did not use scaler.scale(loss)",
     Kind::kMisuse, "pytorch"},
    {"NaN detected in output of encoder.layers.3, shape: torch.Size([8, 16]), backward", Kind::kNonFinite, ""},
    {"Warning: NaN or Inf found in input tensor.", Kind::kNonFinite, ""},
    {"RuntimeError: Function 'MulBackward0' returned nan values in its 0th output.", Kind::kNonFinite, ""},
    {"ValueError: Detected nan and/or inf values in `fc.weight` (check your forward pass)", Kind::kNonFinite, ""},
    {"Loss is nan, stopping training", Kind::kNonFinite, ""},
    {"loss scale mismatch: rank 2 has 512, rank 5 has 1024", Kind::kRanksDiffer, ""},
    {"Weights differ between ranks 0 and 3", Kind::kRanksDiffer, ""},
};

void expect_line(const Line& line, const std::vector<Reading>& readings, const std::string& text) {
  ASSERT_EQ(readings.size(), 1U) << text;
  const Reading& reading = readings[0];
  EXPECT_EQ(reading.kind, line.kind) << text;
  EXPECT_EQ(reading.policy, line.policy) << text;
  EXPECT_EQ(reading.scale_before.value_or(-1), line.before) << text;
  EXPECT_EQ(reading.scale_after.value_or(-1), line.after) << text;
  EXPECT_FALSE(reading.format.empty()) << text;
}

TEST(ScalerFormatsTest, EachLineWithAnyPrefix) {
  for (const Line& line : kLines) {
    for (const std::string_view prefix :
         {"", "[rank3]: ", "[2023-04-28 06:51:29,903] [INFO] [loss_scaler.py:188:update_scale] ",
          "2020-08-01 12:39:16 | INFO | a.trainer | ", "[1,0]<stdout>:", "trainer-1  | ", "\x1b[33mWARNING\x1b[0m ",
          "2023-08-01 12:39:16.123 | INFO     | __main__:train:123 - ", " 13%|#   | 37/272 [00:10<01:00,  3.5it/s]\r",
          "some words of another line\r"}) {
      const std::string text = std::string(prefix) + std::string(line.text);
      auto readings = read_text(text + "\n");
      std::erase_if(readings, [](const Reading& reading) { return reading.kind == Kind::kProgress; });
      expect_line(line, readings, text);
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(ScalerFormatsTest, GluedLinesGiveAllTheirReadings) {
  const auto readings = read_text(
      "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 32768.0Gradient overflow.  Skipping step, loss "
      "scaler 1 reducing loss "
      "scale to 16384.0Epoch 3 done OVERFLOW! Skipping step. Attempted loss scale: 8.0\n");
  ASSERT_EQ(readings.size(), 3U);
  EXPECT_EQ(readings[0].scale_after, 32768);
  EXPECT_EQ(readings[1].scale_after, 16384);
  EXPECT_EQ(readings[1].scaler, 1U);
  EXPECT_EQ(readings[2].scale_before, 8);
}

TEST(ScalerFormatsTest, TheSameWordsInSourceCodeAndProseAreNoEvents) {
  for (const std::string_view text : {
           "        print(\"Gradient overflow.  Skipping step, loss scaler {} reducing loss scale to {}\".format(i, s))",
           "                \"unscale_() has already been called on this optimizer since the last update().\"",
           "If you call it twice, unscale_() has already been called on this optimizer since the last update(). is raised.",
           "raise Exception('Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.')",
           "The message `Attempting to unscale FP16 gradients.` means that parameters are half.",
           "OVERFLOW! Skipping step. Attempted loss scale: {}, reducing to {}",
           "assert _scale is not None, \"Attempted {} but _scale is None.  \" + fix",
           "buffer OVERFLOW! Skipping frame",
           "parameters do not differ between rank 0 and rank 1",
           "no mismatch of weights between rank 0 and rank 1",
           "rank 0 and rank 1 differ in host name",
           "Using dynamic loss scaling",
       }) {
    EXPECT_TRUE(read_text(std::string(text) + "\n").empty()) << text;
  }
}

TEST(ScalerFormatsTest, TwoLinesOfEachRankAreOneSkipEachAndTheRepetitionNone) {
  const auto readings = read_text(
      "Grad overflow on iteration 3\nReducing dynamic loss scale from 8.0 to 4.0\n\nGrad overflow on iteration 3\nReducing "
      "dynamic loss scale from 8.0 "
      "to 4.0\n[Rank 0] Overflow detected. Skipping step. Attempted loss scale: 8.0, reducing to 4.0\n");
  ASSERT_EQ(readings.size(), 2U);
  EXPECT_EQ(readings[0].step, 3);
  EXPECT_EQ(readings[0].line, 2U);
  EXPECT_EQ(readings[1].scale_after, 4);
  const auto apex =
      read_text("Grad overflow on iteration 7\nUsing dynamic loss scale of 65536\nGrad overflow on iteration 9\n");
  ASSERT_EQ(apex.size(), 2U);
  EXPECT_EQ(apex[0].step, 7);
  EXPECT_EQ(apex[0].scale_before, 65536);
  EXPECT_EQ(apex[1].step, 9);
  EXPECT_FALSE(apex[1].scale_before);
}

TEST(ScalerFormatsTest, MegatronSaysWhenItsLossVanished) {
  const std::string head =
      " iteration     5426/  250000 | consumed samples:        43408 | elapsed time per iteration (ms): 4247.9 | learning "
      "rate: 3E-04 | ";
  const std::string tail =
      "loss scale: 1.0 | grad norm: nan | number of skipped iterations:   2 | number of nan iterations:   1 |";
  const auto readings = read_text(head + tail + "\n" + head + "lm loss: 2.5E+00 | " + tail + "\n");
  ASSERT_EQ(readings.size(), 2U);
  EXPECT_TRUE(readings[0].loss_missing);
  EXPECT_EQ(readings[0].step, 5426);
  EXPECT_EQ(readings[0].skipped, 2U);
  EXPECT_EQ(readings[0].nan_skipped, 1U);
  EXPECT_EQ(readings[0].skipped_span, Reading::Span::kInterval);
  EXPECT_TRUE(std::isnan(*readings[0].grad_norm));
  EXPECT_FALSE(readings[1].loss_missing);
  EXPECT_EQ(readings[1].loss, 2.5);
}

TEST(ScalerFormatsTest, FairseqScalesAreRounded) {
  const auto readings = read_text(
      "| epoch 001:    400 / 1374 loss=13.137, ppl=0.00, num_updates=389, lr=9.8e-06, gnorm=2.587, loss_scale=0.031, "
      "wall=1061\n"
      "| epoch 002 | loss 6.343 | nll_loss 4.984 | num_updates 10198 | lr 0.0006 | gnorm 0.390 | loss_scale 0.500 | wall "
      "23080\n"
      "{\"epoch\": 3, \"update\": 2.5, \"loss\": \"3.005\", \"num_updates\": \"25600\", \"gnorm\": \"0.173\", \"loss_scale\": "
      "\"0.25\"}\n"
      "{\"epoch\": 3, \"valid_loss\": \"2.5\", \"valid_nll_loss\": \"1.5\", \"valid_num_updates\": \"25600\"}\n");
  ASSERT_EQ(readings.size(), 4U);
  EXPECT_NEAR(readings[0].scale_quantum, 1e-3, 1e-9);
  EXPECT_EQ(readings[0].step, 389);
  EXPECT_NEAR(readings[1].scale_quantum, 1e-3, 1e-9);
  EXPECT_NEAR(readings[2].scale_quantum, 1e-4, 1e-9);
  EXPECT_EQ(readings[2].loss, 3.005);
  EXPECT_EQ(readings[3].valid_loss, 2.5);
  EXPECT_FALSE(readings[3].loss);
  EXPECT_EQ(readings[2].step_counts_attempts, false);
}

TEST(ScalerFormatsTest, IcefallPrintsBothLosses) {
  const auto readings = read_text(
      "2025-05-20 02:38:47,195 INFO [train.py:1056] (7/8) Epoch 1, batch 200, loss[loss=0.6675, simple_loss=0.6511, over "
      "19153.00 frames. ], "
      "tot_loss[loss=0.6085, simple_loss=0.5909, over 37589436.30 frames. ], batch size: 130, lr: 2.73e-02, grad_scale: "
      "6.103515625e-05\n");
  ASSERT_EQ(readings.size(), 1U);
  EXPECT_EQ(readings[0].loss_now, 0.6675);
  EXPECT_EQ(readings[0].loss, 0.6085);
  EXPECT_EQ(readings[0].batch, 200);
  EXPECT_EQ(readings[0].rank, 7U);
  EXPECT_EQ(readings[0].lr, 0.0273);
  EXPECT_EQ(readings[0].scale, 6.103515625e-05);
  EXPECT_EQ(readings[0].scale_quantum, 0);
}

TEST(ScalerFormatsTest, FramesOfForwardNameModuleAndRange) {
  const auto readings = read_text(
      "Detected inf/nan during batch_number=4\nLast 21 forward frames:\nabs min  abs max  metadata\n"
      "                  decoder.block.1.wo Linear\n4.80e-06 8.62e+00 weight\n0.00e+00      inf output\n"
      "Traceback (most recent call last):\n1.0 2.0 output\n");
  ASSERT_EQ(readings.size(), 3U);
  EXPECT_EQ(readings[0].kind, Kind::kModuleRange);
  EXPECT_EQ(readings[0].tensor, "decoder.block.1.wo weight");
  EXPECT_EQ(readings[0].abs_max, 8.62);
  EXPECT_EQ(readings[0].step, 4);
  EXPECT_EQ(readings[2].kind, Kind::kNonFinite);
  EXPECT_EQ(readings[2].non_finite, "inf");
  EXPECT_EQ(readings[2].where, "forward");
}

}  // namespace
}  // namespace scalewatch::logimport
