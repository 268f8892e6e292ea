#include "tests/bench/import/mix.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <random>

namespace scalewatch::logimport {
namespace {

struct Numbers {
  std::uint64_t step = 0;
  double loss = 0;
  double norm = 0;
  double lr = 0;
  double scale = 0;
};

using MakeLine = std::string (*)(const Numbers&);

std::string bar(std::uint64_t step) {
  return fmt::format("\r{:3d}%|{:<10}| {}/{} [12:34<1:02:03,  2.31it/s]", step % 100, std::string(step % 10, '#'), step,
                     step + 5000);
}

// One of each family, as their trainers print it.
constexpr MakeLine kMatching[] = {
    [](const Numbers& n) {
      return fmt::format("Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to {}", n.scale);
    },
    [](const Numbers& n) {
      return fmt::format(
          "{}[2023-06-07 22:16:00,018] [INFO] [loss_scaler.py:181:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping step. "
          "Attempted loss scale: {}, reducing to {}",
          bar(n.step), n.scale, n.scale / 2);
    },
    [](const Numbers& n) {
      return fmt::format(
          "[2023-04-28 06:51:36,000] [INFO] [logging.py:96:log_dist] [Rank 0] step={}, skipped={}, "
          "lr=[{:.6g}], mom=[(0.9, 0.95)]",
          n.step, n.step / 100, n.lr);
    },
    [](const Numbers& n) {
      return fmt::format(
          " iteration {:8d}/  250000 | consumed samples: {:12d} | elapsed time per iteration (ms): 4247.9 | learning rate: "
          "{:.3E} | global batch size:     8 | lm loss: {:.6E} | loss scale: {:.1f} | grad norm: {:.3f} | number of skipped "
          "iterations:   0 | number of nan iterations:   0 |",
          n.step, n.step * 8, n.lr, n.loss, n.scale, n.norm);
    },
    [](const Numbers& n) {
      return fmt::format(
          "2020-08-01 12:39:39 | INFO | train_inner | epoch 001:   {} / 6547 loss={:.3f}, nll_loss=0.001, wps=82565, ups=2.66, "
          "wpb=31075.5, bsz=64, num_updates={}, lr={:.6g}, gnorm={:.3f}, loss_scale={}, train_wall=38, wall=1353",
          n.step % 6547, n.loss, n.step, n.lr, n.norm, n.scale);
    },
    [](const Numbers& n) {
      return fmt::format(
          "2025-05-20 02:38:47,195 INFO [train.py:1056] (7/8) Epoch 1, batch {}, loss[loss={:.4f}, simple_loss=0.6511, over "
          "19153.00 frames. ], tot_loss[loss={:.4f}, simple_loss=0.5909, over 37589436.30 frames. ], batch size: 130, lr: "
          "{:.2e}, grad_scale: {}",
          n.step, n.loss, n.loss, n.lr, n.scale);
    },
    [](const Numbers& n) {
      return fmt::format("{{'loss': {:.4f}, 'grad_norm': {:.6f}, 'learning_rate': {:.12g}, 'epoch': {:.2f}}}", n.loss, n.norm,
                         n.lr, static_cast<double>(n.step) / 1000);
    },
    [](const Numbers& n) {
      return fmt::format("{}{{'loss': {:.4f}, 'learning_rate': {:.12g}, 'epoch': {:.2f}}}", bar(n.step), n.loss, n.lr,
                         static_cast<double>(n.step) / 1000);
    },
    [](const Numbers& n) {
      return fmt::format(
          "[2022-02-05 15:20:13 model] (main.py 185): INFO Train: [6/100][{}/1251]\teta 0:05:00 lr {:.6f}\ttime 0.9736 "
          "(0.9736)\tloss {:.4f} (0.4707)\tgrad_norm {:.4f} (1.2)\tloss_scale {:.4f} (65536.0000)\tmem 18243MB",
          n.step % 1251, n.lr, n.loss, n.norm, n.scale);
    },
    [](const Numbers& n) {
      return fmt::format("{{\"step\": {}, \"loss\": {:.6f}, \"grad_norm\": {:.5f}, \"lr\": {:.6g}, \"loss_scale\": {}}}",
                         n.step, n.loss, n.norm, n.lr, n.scale);
    },
    [](const Numbers& n) {
      return fmt::format("step {} loss {:.4f} grad_norm {:.3f} lr {:.6f} scale {}", n.step, n.loss, n.norm, n.lr, n.scale);
    },
    [](const Numbers& n) {
      return fmt::format(
          "2021-04-25 21:57:25,101 - mmdet - INFO - Epoch [3][{}/7330]\tlr: {:.3e}, eta: 1 day, 2:03:04, time: 0.4, data_time: "
          "0.01, memory: 4000, loss_cls: 0.31, loss_bbox: 0.25, loss: {:.4f}, grad_norm: {:.4f}",
          n.step % 7330, n.lr, n.loss, n.norm);
    },
    [](const Numbers& n) {
      return fmt::format("Epoch 3:  12%|#2        | {}/8000 [00:30<02:10,  5.31it/s, v_num=0, train_loss={:.3f}]",
                         n.step % 8000, n.loss);
    },
    [](const Numbers& n) {
      return fmt::format(
          "DLL 2020-05-18 05:21:26.672680 - Training Epoch: 0 Training Iteration: {}  average_loss : "
          "{:.6f}  step_loss : {:.6f}  learning_rate : {:.10f} ",
          n.step, n.loss, n.loss, n.lr);
    },
    [](const Numbers& n) {
      return fmt::format("Found inf or nan, current scale is: {}, decrease to: {}*0.5", n.scale, n.scale);
    },
    [](const Numbers& n) { return bar(n.step); },
};

constexpr MakeLine kOther[] = {
    [](const Numbers& n) {
      return fmt::format("node-17:4021:4188 [3] NCCL INFO Channel {:02d}/24 : 3[b7000] -> 5[bd000] via P2P/IPC", n.step % 24);
    },
    [](const Numbers&) {
      return std::string(
          "/opt/venv/lib/python3.10/site-packages/torch/utils/checkpoint.py:31: UserWarning: None of the inputs "
          "have requires_grad=True. Gradients will be None");
    },
    [](const Numbers& n) { return fmt::format("INFO:     10.0.3.{}:51312 - \"GET /healthz HTTP/1.1\" 200 OK", n.step % 256); },
    [](const Numbers& n) {
      return fmt::format("Reading shard data/part-{:05d}.parquet ({} rows, {:.1f} MB)", n.step % 1024, n.step * 7,
                         n.norm * 100);
    },
    [](const Numbers&) { return std::string("  File \"/workspace/models/attention.py\", line 214, in forward"); },
    [](const Numbers&) {
      return std::string("    return self.out_proj(attention_output.transpose(1, 2).reshape(batch, length, width))");
    },
    [](const Numbers& n) {
      return fmt::format("2023-06-07 22:16:00 DEBUG dataloader worker {} prefetched {} batches in {:.3f} s", n.step % 16,
                         n.step % 64, n.norm);
    },
    [](const Numbers&) {
      return std::string(
          "\xe6\xad\xa3\xe5\x9c\xa8\xe8\xaf\xbb\xe5\x8f\x96\xe6\x95\xb0\xe6\x8d\xae\xe9\x9b\x86\xef\xbc\x8c"
          "\xe8\xaf\xb7\xe7\xa8\x8d\xe5\x80\x99");
    },
    [](const Numbers& n) {
      return fmt::format("GPU {} | 63C | 287W / 300W | {}MiB / 81559MiB | 98% Default", n.step % 8, 40000 + n.step % 30000);
    },
    [](const Numbers&) { return std::string(); },
};

constexpr std::string_view kPrefixes[] = {
    "", "", "", "[rank3]: ", "[1,5]<stdout>:", "2: ", "trainer-1  | ", "2023-04-28T06:51:29.903Z "};

}  // namespace

Mix make_mix(std::size_t bytes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform;
  Mix mix;
  mix.text.reserve(bytes + 1024);
  Numbers n;
  while (mix.text.size() < bytes) {
    ++n.step;
    n.loss = 3 + uniform(random);
    n.norm = 0.5 + uniform(random);
    n.lr = 1e-4 * uniform(random);
    n.scale = std::ldexp(1.0, static_cast<int>(10 + random() % 8));
    const bool matters = random() % 3 == 0;
    const std::string line = matters ? kMatching[random() % std::size(kMatching)](n) : kOther[random() % std::size(kOther)](n);
    const bool coloured = random() % 8 == 0;
    if (line.empty() || line[0] != '\r') mix.text += kPrefixes[random() % std::size(kPrefixes)];
    if (coloured) mix.text += "\x1b[32m";
    mix.text += line;
    if (coloured) mix.text += "\x1b[0m";
    mix.text += '\n';
    ++mix.lines;
    mix.matching += matters ? 1 : 0;
  }
  return mix;
}

}  // namespace scalewatch::logimport
