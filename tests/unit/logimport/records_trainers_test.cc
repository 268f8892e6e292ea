// One record of each trainer, as its code prints it, behind any prefix.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "tests/unit/logimport/read_records.h"

namespace scalewatch::logimport {
namespace {

using Span = Reading::Span;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

struct Expected {
  std::optional<std::int64_t> step = {};
  std::optional<double> epoch = {};
  std::optional<std::int64_t> batch = {};
  std::optional<double> loss = {};
  Span loss_span = Span::kUnknown;
  std::optional<double> loss_now = {};
  std::optional<double> loss_part = {};
  std::optional<double> valid_loss = {};
  std::optional<double> scale = {};
  std::optional<double> grad_norm = {};
  std::optional<double> lr = {};
  std::optional<double> accuracy = {};
  std::optional<std::uint64_t> skipped = {};
};

struct Sample {
  const char* format;
  const char* line;
  Expected expected;
};

void expect_number(const char* what, const std::optional<double>& found, const std::optional<double>& wanted) {
  ASSERT_EQ(found.has_value(), wanted.has_value()) << what;
  if (!wanted) return;
  if (std::isnan(*wanted)) {
    EXPECT_TRUE(std::isnan(*found)) << what;
  } else {
    EXPECT_DOUBLE_EQ(*found, *wanted) << what;
  }
}

void expect_reading(const Reading& r, const Sample& sample) {
  const Expected& e = sample.expected;
  EXPECT_EQ(r.format, sample.format);
  EXPECT_EQ(r.kind, Reading::Kind::kRecord);
  EXPECT_EQ(r.step, e.step);
  EXPECT_EQ(r.batch, e.batch);
  EXPECT_EQ(r.loss_span, e.loss_span);
  EXPECT_EQ(r.skipped, e.skipped);
  expect_number("epoch", r.epoch, e.epoch);
  expect_number("loss", r.loss, e.loss);
  expect_number("loss_now", r.loss_now, e.loss_now);
  expect_number("loss_part", r.loss_part, e.loss_part);
  expect_number("valid_loss", r.valid_loss, e.valid_loss);
  expect_number("scale", r.scale, e.scale);
  expect_number("grad_norm", r.grad_norm, e.grad_norm);
  expect_number("lr", r.lr, e.lr);
  expect_number("accuracy", r.accuracy, e.accuracy);
}

const Sample kSamples[] = {
    {"hf_trainer",
     "{'loss': 1.7301, 'grad_norm': nan, 'learning_rate': 4.1e-06, 'epoch': 0.31}",
     {.epoch = 0.31, .loss = 1.7301, .loss_span = Span::kInterval, .grad_norm = kNan, .lr = 4.1e-06}},
    {"hf_trainer",
     "{'loss': '0.8812', 'grad_norm': '1.25', 'learning_rate': '2e-05', 'epoch': '1.5'}",
     {.epoch = 1.5, .loss = 0.8812, .loss_span = Span::kInterval, .grad_norm = 1.25, .lr = 2e-05}},
    {"hf_trainer",
     R"({"loss": 1.25, "acc": 0.61, "grad_norm": NaN, "learning_rate": 1e-05, "epoch": 0.7, "global_step/max_steps": "815/1100"})",
     {.step = 815, .epoch = 0.7, .loss = 1.25, .loss_span = Span::kInterval, .grad_norm = kNan, .lr = 1e-05, .accuracy = 0.61}},
    {"hf_trainer",
     "{'eval_loss': 0.61, 'eval_accuracy': 0.8, 'eval_runtime': 3.1, 'eval_samples_per_second': 80.2, 'epoch': 2.0}",
     {.epoch = 2.0, .valid_loss = 0.61}},
    {"swin",
     "Train: [4/300][210/1251]\teta 0:07:31 lr 0.000171\ttime 0.51 (0.52)\tloss 6.1201 (6.2402)\tgrad_norm 1.9100 "
     "(inf)\tloss_scale "
     "32768.0000 (36044.8000)\tmem 9921MB",
     {.epoch = 4,
      .batch = 210,
      .loss = 6.2402,
      .loss_span = Span::kTotal,
      .loss_now = 6.1201,
      .scale = 32768,
      .grad_norm = 1.91,
      .lr = 0.000171}},
    {"metric_logger",
     "Epoch: [2]  [  40/1251]  eta: 0:11:10  lr: 0.000120  loss: 5.1000 (5.4000)  loss_scale: 65536.0000 (65536.0000)  "
     "grad_norm: "
     "2.2000 (nan)  time: 0.5  data: 0.01  max mem: 8121",
     {.epoch = 2, .batch = 40, .loss = 5.1, .loss_span = Span::kInterval, .scale = 65536, .grad_norm = 2.2, .lr = 0.00012}},
    {"mmengine",
     "Epoch(train)  [3][ 150/7330]  base_lr: 1.0000e-02 lr: 2.0000e-02  eta: 1 day, 2:01:02  time: 0.3  data_time: 0.01  "
     "memory: 3301  "
     "grad_norm: 4.1000  loss: 0.9100  loss_cls: 0.5000  acc: 91.2000  loss_bbox: 0.4100",
     {.epoch = 3, .batch = 150, .loss = 0.91, .loss_span = Span::kInterval, .grad_norm = 4.1, .lr = 0.01, .accuracy = 91.2}},
    {"mmengine",
     "Iter(train) [ 1200/80000]  lr: 9.9e-03  eta: 5:00:00  time: 0.2  data_time: 0.01  memory: 3000  loss: nan  "
     "decode.loss_ce: nan",
     {.step = 1200, .loss = kNan, .loss_span = Span::kInterval, .lr = 9.9e-03}},
    {"mmcv",
     "Epoch [2][100/5000]\tlr: 2.000e-02, eta: 9:10:11, time: 0.400, data_time: 0.010, memory: 3500, loss_rpn_cls: 0.0410, "
     "s0.loss_cls: "
     "0.3000, s0.acc: 90.1000, loss: 1.2010, grad_norm: 7.5000",
     {.epoch = 2, .batch = 100, .loss = 1.201, .loss_span = Span::kInterval, .grad_norm = 7.5, .lr = 0.02}},
    {"mmcv_json",
     R"({"mode": "train", "epoch": 3, "iter": 150, "lr": 0.02, "memory": 3770, "data_time": 0.05, "loss_cls": 0.4, "loss": 0.9, "grad_norm": 3.5, "time": 0.4})",
     {.epoch = 3, .batch = 150, .loss = 0.9, .loss_span = Span::kInterval, .grad_norm = 3.5, .lr = 0.02}},
    {"detectron2",
     " eta: 1:02:03  iter: 219  total_loss: 1.71  loss_cls: 0.5  loss_box_reg: 0.61  time: 0.4101  last_time: 0.4  data_time: "
     "0.0081  "
     "last_data_time: 0.01   lr: 0.0043  max_mem: 4012M",
     {.step = 219, .loss = 1.71, .loss_span = Span::kInterval, .lr = 0.0043}},
    {"torchtitan",
     "[titan] 2025-03-04 05:06:07,890 - root - INFO - step: 20  loss:  7.5123  grad_norm:  1.3012  memory: 12.5GiB(13.1%)  "
     "tps: 5,210  "
     "tflops: 90.12  mfu: 28.9%",
     {.step = 20, .loss = 7.5123, .loss_span = Span::kStep, .grad_norm = 1.3012}},
    {"torchtune",
     "Step 12 | loss:1.3011 lr:1.2e-05 tokens_per_second_per_gpu:812.5 peak_memory_active:14.1 grad_norm:3.25",
     {.step = 12, .loss = 1.3011, .loss_span = Span::kStep, .grad_norm = 3.25, .lr = 1.2e-05}},
    {"nanogpt", "iter 310: loss 3.9123, time 251.20ms, mfu 12.30%", {.step = 310, .loss = 3.9123, .loss_span = Span::kStep}},
    {"key_value", "step 250: train loss 4.0101, val loss 4.0503", {.step = 250, .loss = 4.0101, .valid_loss = 4.0503}},
    {"deepspeed_chat",
     "Epoch: 1 | Step: 35 | PPO Epoch: 1 | Actor Loss: -0.0131 | Critic Loss: 0.0412 | Unsupervised Loss: 0.0",
     {.epoch = 1, .batch = 35, .loss_span = Span::kInterval, .loss_part = -0.0131}},
    {"gpt_neox",
     " samples/sec: 48.2 | iteration      120/  50000 | elapsed time per iteration (ms): 900.1 | learning rate: 1.100E-05 | "
     "approx flops "
     "per GPU: 51.0TFLOPS | lm_loss: 8.120000E+00 | loss scale: 32768.0 | number of skipped iterations:   2 | number of nan "
     "iterations:   0 |",
     {.step = 120, .loss = 8.12, .loss_span = Span::kInterval, .scale = 32768, .lr = 1.1e-05, .skipped = 2}},
    {"insightface",
     "-Speed 512.10 samples/sec   Loss 31.5012   LearningRate 0.0612   Epoch: 1   Global Step: 4150   Fp16 Grad Scale: 6400   "
     "Required: "
     "31 hours",
     {.step = 4150, .epoch = 1, .loss = 31.5012, .loss_span = Span::kInterval, .scale = 6400, .lr = 0.0612}},
    {"paddle_records",
     "[Train][Epoch 3/120][Iter: 40/410]lr(Cosine): 0.01200000, CELoss: 6.01000, loss: 6.51000, batch_cost: 0.3s, reader_cost: "
     "0.01, "
     "ips: 210.1 samples/s, eta: 1:00:00",
     {.epoch = 3, .batch = 40, .loss = 6.51, .loss_span = Span::kInterval, .lr = 0.012}},
    {"paddle_records",
     "epoch: [2/500], global_step: 90, lr: 0.001000, acc: 0.120000, norm_edit_dis: 0.3, loss: 21.500000, avg_reader_cost: 0.1 "
     "s, "
     "avg_batch_cost: 0.4 s, avg_samples: 64.0, ips: 160.1",
     {.step = 90, .epoch = 2, .loss = 21.5, .loss_span = Span::kInterval, .lr = 0.001, .accuracy = 0.12}},
    {"yolact",
     "[  2]    2410 || B: 4.101 | C: 3.012 | M: 6.020 | S: 1.010 | T: 14.143 || ETA: 5 days, 1:02:03 || timer: 0.5",
     {.step = 2410, .epoch = 2, .loss = 14.143, .loss_span = Span::kInterval}},
    {"tacotron2",
     "Train loss 812 0.451200 Grad Norm inf 2.10s/it",
     {.step = 812, .loss = 0.4512, .loss_span = Span::kStep, .grad_norm = kInf}},
    {"espnet",
     "(trainer:753) INFO: 3epoch:train:201-400batch: iter_time=0.01, forward_time=0.1, loss_ctc=80.1, loss_att=60.2, acc=0.61, "
     "loss=66.17, backward_time=0.1, grad_norm=12.3, clip=100.000, loss_scale=4096, optim0_lr0=1.1e-05, train_time=0.5",
     {.epoch = 3,
      .batch = 400,
      .loss = 66.17,
      .loss_span = Span::kInterval,
      .scale = 4096,
      .grad_norm = 12.3,
      .lr = 1.1e-05,
      .accuracy = 0.61}},
    {"dllogger",
     "DLL 2021-02-03 04:05:06.700000 - Training Epoch: 1 Training Iteration: 410  average_loss : nan  step_loss : 7.1  "
     "learning_rate : "
     "0.004",
     {.step = 410, .epoch = 1, .loss = kNan, .loss_span = Span::kInterval, .loss_now = 7.1, .lr = 0.004}},
    {"dllogger_json",
     R"(DLLL {"timestamp": "1612.5", "datetime": "2021-02-03 04:05:06.7", "elapsedtime": "9.1", "type": "LOG", "step": [1, 411], "data": {"loss": 7.25, "lr": 0.004}})",
     {.step = 411, .epoch = 1, .loss = 7.25, .lr = 0.004}},
    {"progress_bar",
     "Epoch 5:  12%|#2        | 96/800 [00:30<03:40,  3.20it/s, loss=0.71, v_num=3]",
     {.epoch = 5, .batch = 96, .loss = 0.71}},
    {"key_value",
     "Epoch 0: :   1%|          | 9/1000 [01:10<19:00:01, v_num=ab-0, reduced_train_loss=10.20, global_step=8.000, "
     "consumed_samples=512.0]",
     {.step = 8, .epoch = 0, .loss = 10.2}},
    {"progress_bar",
     "[losses/total_loss: 1.91 | losses/policy_loss: -0.2 | losses/value_loss: 4.1]:  30%|###   | 310/1000 [10:01<20:00,  "
     "1.74s/it]",
     {.step = 310, .loss = 1.91}},
    {"progress_bar",
     "Steps:   4%|4    | 40/1000 [01:00<24:00,  1.50s/it, lr=1e-5, step_loss=0.112]",
     {.step = 40, .loss = 0.112, .loss_span = Span::kStep, .lr = 1e-5}},
    {"json_lines",
     R"({"step": 30, "train/loss": 2.5, "amp/grad_scale": 1024.0, "lr": 0.001})",
     {.step = 30, .loss = 2.5, .scale = 1024, .lr = 0.001}},
    {"json_lines",
     R"({"epoch": 4, "train_loss": 0.51, "test_loss": 0.62, "train_lr": 0.0002})",
     {.epoch = 4, .loss = 0.51, .valid_loss = 0.62, .lr = 0.0002}},
    {"key_value",
     "step 120 | loss: 3.101234 | lr 6.0e-04 | norm: 0.7312 | dt: 101.1ms | tok/sec: 5012.1",
     {.step = 120, .loss = 3.101234, .grad_norm = 0.7312, .lr = 6e-4}},
    {"key_value",
     "Epoch: [1][ 310/5005]\tTime  0.31 ( 0.33)\tData  0.01 ( 0.02)\tLoss 5.1e+00 (5.9e+00)\tAcc@1   9.38 (  4.10)",
     {.epoch = 1, .batch = 310, .loss = 5.9, .loss_span = Span::kTotal, .loss_now = 5.1, .accuracy = 9.38}},
    {"key_value", "Epoch [2/5], Step [300/600], Loss: 0.4123", {.epoch = 2, .batch = 300, .loss = 0.4123}},
    {"key_value",
     "[3/25][150/391]\tLoss_D: 0.4102\tLoss_G: 3.1101\tD(x): 0.8001\tD(G(z)): 0.2001 / 0.0501",
     {.epoch = 3, .batch = 150, .loss_part = 0.4102}},
    {"key_value", "[2,  4000] loss: 1.412", {.epoch = 2, .batch = 4000, .loss = 1.412}},
    {"key_value", "Train Epoch: 2 [1280/60000 (2%)]\tLoss: 0.312000", {.epoch = 2, .batch = 1280, .loss = 0.312}},
    {"key_value", "loss: 1.912345  [ 6464/60000]", {.batch = 6464, .loss = 1.912345}},
    {"key_value",
     "2024-01-02 INFO step=70 loss=nan grad_scale=0.5 lr=1e-4",
     {.step = 70, .loss = kNan, .scale = 0.5, .lr = 1e-4}},
    {"key_value", "当前步骤 step：12，loss：0.75，学习率 lr：0.001", {.step = 12, .loss = 0.75, .lr = 0.001}},
    {"key_value", "step 1,250 loss 2.5 lr 0.001 skipped_steps 3", {.step = 1250, .loss = 2.5, .lr = 0.001, .skipped = 3}},
    {"key_value", "| step 9 | total_loss 1.5 | value_loss 9.5 | policy_loss 0.1 |", {.step = 9, .loss = 1.5}},
    {"key_value",
     "step 25/40, loss: 12.5, overflow cond: False, loss_scale: 65536.0, global_norm: [4.25]",
     {.step = 25, .loss = 12.5, .scale = 65536, .grad_norm = 4.25}},
    {"key_value",
     "step: 8, loss: tensor(0.25, device='cuda:0', grad_fn=<DivBackward0>), lr: 0.1",
     {.step = 8, .loss = 0.25, .lr = 0.1}},
    {"key_value",
     "120/500 [=====>........................] - ETA: 12s - loss: 0.6123 - accuracy: 0.7310",
     {.batch = 120, .loss = 0.6123, .loss_span = Span::kTotal, .accuracy = 0.731}},
};

class Trainers : public testing::TestWithParam<Sample> {};

TEST_P(Trainers, ReadsItsRecordBehindAnyPrefix) {
  const Sample& sample = GetParam();
  for (const std::string prefix :
       {"", "[rank0]: ", "\x1b[36m2024-05-06 07:08:09.123\x1b[0m | INFO     | ",
        "1: ", "[2024-05-06 07:08:09,123][trainer][INFO] - ", "100%|####| 5/5 [00:01<00:00,  4.10it/s]\r"}) {
    const auto readings = read_records(prefix + sample.line + "\n");
    ASSERT_EQ(readings.size(), 1U) << prefix << sample.line;
    SCOPED_TRACE(prefix + sample.line);
    expect_reading(readings[0], sample);
  }
}

TEST_P(Trainers, AnyBeginningOfItsLineIsHarmless) {
  const std::string line = GetParam().line;
  for (std::size_t length = 0; length < line.size(); ++length) {
    EXPECT_LE(read_text(line.substr(0, length)).size(), 2U);
    read_text(line.substr(length) + "\n");
  }
}

INSTANTIATE_TEST_SUITE_P(All, Trainers, testing::ValuesIn(kSamples));

TEST(Records, StepsThatBeginAgainWithEachEpochAreBatches) {
  const auto readings = read_records(
      "epoch 0 step 50 loss 3.0\nepoch 0 step 100 loss 2.5\nepoch 1 step 50 loss 2.0\nepoch 1 step 100 loss 1.9\n");
  ASSERT_EQ(readings.size(), 4U);
  EXPECT_EQ(readings[1].step, 100);
  EXPECT_EQ(readings[3].batch, 100);
  EXPECT_FALSE(readings[3].step);
}

TEST(Records, AHeaderGivesTheEpochOfWhatFollows) {
  const auto readings =
      read_records("Epoch 3/10\n10/20 [====>....] - loss: 0.5 - acc: 0.9\ntrain Loss: 0.4 Acc: 0.8\nval Loss: 0.6 Acc: 0.7\n");
  ASSERT_EQ(readings.size(), 3U);
  EXPECT_EQ(readings[0].epoch, 3);
  EXPECT_EQ(readings[1].loss, 0.4);
  EXPECT_FALSE(readings[2].loss);
  EXPECT_EQ(readings[2].valid_loss, 0.6);
}

TEST(Records, YoloTablesAreReadByTheirHeader) {
  const auto readings = read_records(
      "      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size\n"
      "      3/100      2.36G      1.215      nan      1.101         20        640: 100%|####| 8/8 [00:05<00:00,  1.5it/s]\n"
      "                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95): 100%|####| 4/4 [00:01<00:00]\n"
      "                   all        128        929       0.64      0.537      0.605      0.446\n");
  ASSERT_EQ(readings.size(), 1U);
  EXPECT_EQ(readings[0].format, "yolo_table");
  EXPECT_EQ(readings[0].epoch, 3);
  EXPECT_EQ(readings[0].batch, 8);
  EXPECT_TRUE(std::isnan(*readings[0].loss_part));
}

TEST(Records, TablesUnderAHeaderAreRead) {
  for (const char* text :
       {"epoch     train_loss  valid_loss  accuracy  time\n0         0.75        0.5         0.812     00:12\n"
        "1         0.5         0.25        0.9       00:12\n",
        "  epoch    train_loss    valid_loss     dur\n-------  ------------  ------------  ------\n"
        "      0        0.75          0.5       0.1\n      1        0.5           0.25      0.1\n",
        "Epoch\tTraining Loss\tValidation Loss\n0\t0.75\t0.5\n1\t0.5\t0.25\n",
        "| epoch | train loss | val loss |\n|---|---|---|\n| 0 | 0.75 | 0.5 |\n| 1 | 0.5 | 0.25 |\n"}) {
    const auto readings = read_records(text);
    ASSERT_EQ(readings.size(), 2U) << text;
    EXPECT_EQ(readings[1].epoch, 1) << text;
    EXPECT_EQ(readings[1].loss, 0.5) << text;
    EXPECT_EQ(readings[1].valid_loss, 0.25) << text;
  }
}

TEST(Records, BarsOfOtherWorkSayNothing) {
  EXPECT_TRUE(read_text("step 1 loss 2.0 lr 0.1\nMap: 100%|####| 500/500 [00:01<00:00, 400.00 examples/s, 3.1it/s]\n"
                        "Loading checkpoint shards: 50%|##  | 1/2 [00:01<00:01,  1.00s/it]\nEvaluating: 10%|#  | 1/10 "
                        "[00:01<00:09, 1.00it/s]\n")
                  .size() == 1);
}

TEST(Espnet, BatchesThatNobodyCanCountAreNoRecord) {
  const std::string head = "INFO: 1epoch:train:36631-";
  const std::string tail = "batch: iter_time=1.2, loss=66.17, grad_norm=12.3\n";
  ASSERT_EQ(read_text(head + "36700" + tail).size(), 1U);
  EXPECT_EQ(read_text(head + "36700" + tail)[0].attempts_per_record, 70U);
  for (const Reading& reading : read_text(head + "427000000000000000000035" + tail, "espnet")) {
    EXPECT_FALSE(reading.attempts_per_record);
  }
}

}  // namespace
}  // namespace scalewatch::logimport
