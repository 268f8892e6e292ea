// What only looks like records of a training.
#include <gtest/gtest.h>

#include "server/logimport/formats/key_words.h"
#include "tests/unit/logimport/read_records.h"

namespace scalewatch::logimport {
namespace {

class Silent : public testing::TestWithParam<const char*> {};

TEST_P(Silent, SaysNothing) {
  const std::string line = GetParam();
  // Also in a file that is about training.
  EXPECT_TRUE(read_records(line + "\n").empty());
  const auto readings = read_records("step 1 | loss: 2.0 | lr: 0.1\n" + line + "\n");
  EXPECT_EQ(readings.size(), 1U) << line;
}

INSTANTIATE_TEST_SUITE_P(
    All, Silent,
    testing::Values(
        // prose
        "After step 300 the team saw a loss of 2.5 million and scaled the 4 offices down in 3 regions of the country",
        "Losses 3 at home in epoch 2 of the season were hard to take for 11 players and their 40 friends in the stands",
        "The norm 12.5 was set in step 4 by the committee that meets every 2 years in one of its 7 buildings",
        // web servers and systems
        R"(10.0.0.1 - - [10/Oct/2024:13:55:36 +0000] "GET /run?step=3&loss=0.5&lr=0.1 HTTP/1.1" 200 2326)",
        "10 packets transmitted, 10 received, 0% packet loss, time 9012ms",
        "kernel: [ 1234.567890] usb 1-1: new high-speed USB device number 3 using xhci_hcd, scale 2",
        "Oct 10 13:55:36 host sshd[812]: Accepted publickey for root from 10.0.0.1 port 40122 ssh2: RSA norm",
        // tests and benchmarks
        "tests/test_loss.py::test_step[3] PASSED                                   [ 12%]",
        "BM_LossScale/1024        1020 ns         1019 ns       687000 items_per_second=1.004G/s",
        "test loss_scale ... ok, 12 passed in 3.5s",
        // compilers and code
        "loss.cc:120:14: warning: conversion from 'double' to 'float' may change value [-Wfloat-conversion]",
        "    loss = 0.5 * (step == 3) + return 4", "        self.loss_scale = 128.0; self.step = 5",
        "  {.step = 3, .loss = 2.5, .lr = 0.1},",
        // settings
        "Namespace(batch_size=64, epochs=14, lr=1.0, loss_scale=128.0, log_interval=10, seed=1, step=1)",
        "python train.py --epochs 10 --lr 0.1 --loss-scale 128 --loss 3 --step 4", "  max_grad_norm: 1.0",
        "  max_steps: 1000, loss_weight: 0.5, warmup_steps: 100, min_loss_scale: 1", "  loss_scale: 0",
        "best val loss threshold: 0.5, patience: 3 epochs",
        // tables and sizes
        "| 7 | attention.scale | Parameter | 1 | 64.0 K |",
        "logit_scale: 14.2, temperature: 0.07, image scale: 0.5, step_size: 3"));

TEST(KeyWords, SayWhatTheyMean) {
  struct Case {
    const char* key;
    Meaning meaning;
  };
  for (const Case& c :
       {Case{"loss", Meaning::kLoss}, Case{"Train Loss", Meaning::kLoss}, Case{"train/loss_step", Meaning::kLoss},
        Case{"losses/total_loss", Meaning::kLoss}, Case{"avg_loss", Meaning::kLossMean}, Case{"tot_loss", Meaning::kLossMean},
        Case{"train_loss_epoch", Meaning::kLossMean}, Case{"value_loss", Meaning::kLossPart},
        Case{"loss_cls", Meaning::kLossPart}, Case{"CTCLoss", Meaning::kLossPart}, Case{"val_loss", Meaning::kValidLoss},
        Case{"eval/loss", Meaning::kValidLoss}, Case{"Dev loss", Meaning::kValidLoss}, Case{"loss_scale", Meaning::kScale},
        Case{"Fp16 Grad Scale", Meaning::kScale}, Case{"amp/scale", Meaning::kScale}, Case{"scaler", Meaning::kScale},
        Case{"lossScale", Meaning::kScale}, Case{"gnorm", Meaning::kGradNorm}, Case{"gradient norm", Meaning::kGradNorm},
        Case{"GradNorm", Meaning::kGradNorm}, Case{"global_norm", Meaning::kGradNorm}, Case{"lr-AdamW/pg1", Meaning::kLr},
        Case{"lr(Linear)", Meaning::kLr}, Case{"LearningRate", Meaning::kLr}, Case{"optim0_lr0", Meaning::kLr},
        Case{"num_updates", Meaning::kGlobalStep}, Case{"Global Step", Meaning::kGlobalStep}, Case{"Iteration", Meaning::kStep},
        Case{"Epoch(train)", Meaning::kEpoch}, Case{"Acc@1", Meaning::kAccuracy}, Case{"top1", Meaning::kAccuracy},
        Case{"val_acc", Meaning::kEvaluation}, Case{"skipped_steps", Meaning::kSkipped},
        Case{"number of nan iterations", Meaning::kNanSkipped},
        // and what does not
        Case{"loss_weight", Meaning::kNone}, Case{"best_loss", Meaning::kNone}, Case{"value_loss_scale", Meaning::kNone},
        Case{"logit_scale", Meaning::kNone}, Case{"params norm", Meaning::kNone}, Case{"max_grad_norm", Meaning::kNone},
        Case{"step_time", Meaning::kNone}, Case{"batch_size", Meaning::kNone}, Case{"min_lr", Meaning::kNone},
        Case{"total_steps", Meaning::kNone}, Case{"loss_scale_window", Meaning::kNone}}) {
    EXPECT_EQ(static_cast<int>(meaning_of(c.key, true).meaning), static_cast<int>(c.meaning)) << c.key;
  }
  EXPECT_EQ(static_cast<int>(meaning_of("samples/sec Loss", false).meaning), static_cast<int>(Meaning::kLoss));
}

}  // namespace
}  // namespace scalewatch::logimport
