// Healthy runs of every scaler that prints, in its own words: nothing above info is said of any.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <string>

#include "server/domain/policy.h"
#include "server/logimport/diagnose.h"

namespace scalewatch::logimport {
namespace {

// The largest gradient of an attempt in octaves: noise about a level that wanders.
class Edge {
 public:
  explicit Edge(std::uint64_t seed) : random_(seed), sigma_(0.05 + 0.35 * uniform()), level_(-2 + 4 * uniform()) {}
  double next() {
    level_ += 0.01 * normal_(random_);
    return level_ + sigma_ * normal_(random_) - (uniform() < 0.3 ? std::log2(1 - uniform()) / 5 : 0);
  }
  double uniform() { return static_cast<double>(random_() >> 11U) * 0x1p-53; }

 private:
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  double sigma_;
  double level_;
};

struct Attempt {
  std::uint64_t number = 0;  // from 1
  std::uint64_t updates = 0;
  std::uint64_t skipped_total = 0;
  std::uint64_t skipped = 0;   // since the newest record
  std::uint64_t interval = 0;  // attempts since then
  bool skip = false;
  double before = 0;
  double after = 0;
  std::int32_t hysteresis = 1;  // after
  double loss = 0;
  double norm = 0;
  bool record = false;
};

using Print = std::function<std::string(const Attempt&)>;

struct Trainer {
  std::string name;
  std::string policy;
  domain::PolicyParameters parameters;
  int every;  // attempts a record
  Print print;
};

std::vector<Trainer> trainers() {
  std::vector<Trainer> all;
  all.push_back({"any trainer", "pytorch", {}, 10, [](const Attempt& a) {
                   return a.record ? fmt::format("INFO step {} loss: {:.4f} lr: 0.0003 grad_norm: {:.3f} loss_scale: {:.1f}\n",
                                                 a.number, a.loss, a.norm, a.after)
                                   : std::string();
                 }});
  all.push_back({"apex", "apex_amp", {}, 50, [](const Attempt& a) {
                   std::string out;
                   if (a.skip)
                     out +=
                         fmt::format("Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to {}\n", a.after);
                   if (a.record)
                     out += fmt::format("Train iter {} loss {:.6f} Grad Norm {:.6f} 2.51s/it\n", a.number, a.loss, a.norm);
                   return out;
                 }});
  all.push_back({"apex on four ranks", "apex_amp", {}, 20, [](const Attempt& a) {
                   std::string out;
                   for (int rank = 0; a.skip && rank < 4; ++rank)
                     out +=
                         fmt::format("Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to {}\n", a.after);
                   if (a.record) out += fmt::format("step: {}, loss: {:.6f}, lr: 0.0001\n", a.number, a.loss);
                   return out;
                 }});
  all.push_back({"DeepSpeed under a progress bar", "deepspeed", {}, 1, [](const Attempt& a) {
                   std::string out =
                       fmt::format("\r {}%|##        | {}/6000 [00:10<01:00,  2.00it/s]", a.number / 60, a.number);
                   if (a.skip && a.after < a.before) {
                     out += fmt::format(
                         "[2023-06-07 17:28:19,122] [INFO] [loss_scaler.py:181:update_scale] [deepspeed] OVERFLOW! Rank 0 "
                         "Skipping step. Attempted loss scale: {}, reducing to {}\n",
                         a.before, a.after);
                   } else if (a.skip) {
                     out += fmt::format(
                         "[2023-06-07 17:28:19,122] [INFO] [loss_scaler.py:188:update_scale] [deepspeed] OVERFLOW! Rank 0 "
                         "Skipping step. Attempted loss scale: {}, but hysteresis is {}. Reducing hysteresis to {}\n",
                         a.before, a.hysteresis + 1, a.hysteresis);
                   }
                   if (a.number % 10 == 0) {
                     out += fmt::format("{{'loss': {:.4f}, 'grad_norm': {}, 'learning_rate': 0.0002, 'epoch': {:.2f}}}\n",
                                        a.loss, a.skip ? std::string("nan") : fmt::format("{:.5f}", a.norm),
                                        static_cast<double>(a.number) / 1000);
                   }
                   return out;
                 }});
  all.push_back(
      {"Megatron", "megatron", {}, 10, [](const Attempt& a) {
         if (!a.record) return std::string();
         const std::string loss = a.skipped < a.interval ? fmt::format(" lm loss: {:.6E} |", a.loss) : std::string();
         const std::string norm = a.skip ? std::string() : fmt::format(" grad norm: {:.3f} |", a.norm);
         return fmt::format(
             " iteration {:8d}/  250000 | consumed samples: {:12d} | elapsed time per iteration (ms): 247.9 | learning "
             "rate: 2.999E-04 | global batch size:     8 |{} loss scale: {:.1f} |{} number of skipped iterations: {:3d} "
             "| number of nan iterations:   0 |\n",
             a.number, a.number * 8, loss, a.after, norm, a.skipped);
       }});
  all.push_back({"fairseq", "fairseq", {}, 100, [](const Attempt& a) {
                   std::string out;
                   if (a.skip) {
                     out += fmt::format(
                         "2020-08-01 12:39:16 | INFO | fairseq.trainer | NOTE: gradient overflow detected, ignoring gradient, "
                         "setting loss scale to: {:.1f}\n",
                         a.after);
                   }
                   if (a.record && a.updates > 0) {
                     out += fmt::format(
                         "2020-08-01 12:39:39 | INFO | train_inner | epoch 001:   {} / 60000 loss={:.3f}, wps=82565, ups=2.66, "
                         "num_updates={}, lr=9e-06, gnorm={:.3f}, loss_scale={:.4f}, train_wall=38, wall=1353\n",
                         a.number, a.loss, a.updates, a.norm, a.after);
                   }
                   return out;
                 }});
  all.push_back({"Colossal-AI", "colossalai", {}, 20, [](const Attempt& a) {
                   std::string out;
                   if (a.after < a.before) out += fmt::format("Overflow occurs, the loss scale is adjusted to {}\n", a.after);
                   if (a.after > a.before) {
                     out += fmt::format("No overflow for consecutive 1000 steps, the loss scale is adjusted to {}\n", a.after);
                   }
                   if (a.record) out += fmt::format("step: {} loss: {:.4f} lr: 2.5e-05\n", a.number, a.loss);
                   return out;
                 }});
  all.push_back({"Paddle", "paddle", {}, 10, [](const Attempt& a) {
                   std::string out;
                   if (a.after < a.before) {
                     out += fmt::format("Found inf or nan, current scale is: {:.1f}, decrease to: {:.1f}*0.5\n", a.before,
                                        a.before);
                   }
                   if (a.record) {
                     out += fmt::format(
                         "[2022/11/08 14:54:54] ppcls INFO: [Train][Epoch {}/800][Iter: {}/366]lr(LinearWarmup): 0.05000000, "
                         "CELoss: {:.5f}, loss: {:.5f}, batch_cost: 0.54552s, ips: 117.31981 samples/s\n",
                         (a.number - 1) / 366 + 1, (a.number - 1) % 366, a.loss, a.loss);
                   }
                   return out;
                 }});
  all.push_back({"Apex before amp", "apex_fp16_optimizer", {}, 20, [](const Attempt& a) {
                   std::string out;
                   if (a.skip) out += fmt::format("OVERFLOW! Skipping step. Attempted loss scale: {}\n", a.before);
                   if (a.record) out += fmt::format("iter {} loss {:.4f} lr 0.0001\n", a.number, a.loss);
                   return out;
                 }});
  all.push_back({"Apex before amp, in two lines", "apex_fp16_optimizer", {}, 100, [](const Attempt& a) {
                   std::string out;
                   if (a.skip)
                     out +=
                         fmt::format("Grad overflow on iteration {}\nUsing dynamic loss scale of {}\n", a.number - 1, a.before);
                   if (a.record) out += fmt::format("| step {} | loss {:.4f} | gnorm {:.3f}\n", a.number, a.loss, a.norm);
                   return out;
                 }});
  all.push_back({"DeepSpeed fused", "deepspeed_fused", {}, 10, [](const Attempt& a) {
                   std::string out;
                   for (int rank = 0; a.skip && rank < 2; ++rank) {
                     out += fmt::format("Grad overflow on iteration {}\nReducing dynamic loss scale from {} to {}\n",
                                        a.number - 1, a.before, a.after);
                   }
                   if (a.skip) {
                     out += fmt::format("[Rank 0] Overflow detected. Skipping step. Attempted loss scale: {}, reducing to {}\n",
                                        a.before, a.after);
                   }
                   if (a.after > a.before) {
                     out += fmt::format("No Grad overflow for 1000 iterations\nIncreasing dynamic loss scale from {} to {}\n",
                                        a.before, a.after);
                   }
                   if (a.record) {
                     out += fmt::format(
                         "[2021-04-28 06:51:36,000] [INFO] [logging.py:60:log_dist] [Rank 0] step={}, skipped={}, "
                         "lr=[0.0001], mom=[(0.9, 0.95)]\n",
                         a.number, a.skipped_total);
                   }
                   return out;
                 }});
  all.push_back({"DeepSpeed unfused", "deepspeed_unfused", {}, 50, [](const Attempt& a) {
                   std::string out;
                   if (a.skip) {
                     out += fmt::format(
                         "[deepspeed] fp16 dynamic loss scale overflow! Skipping step. Attempted loss scale: {}, reducing to "
                         "{}\n",
                         a.before, a.after);
                   }
                   if (a.record) out += fmt::format("step: {} loss: {:.4f} lr: 2.5e-05\n", a.number, a.loss);
                   return out;
                 }});
  all.push_back(
      {"MindFormers", "mindspore", {}, 1, [](const Attempt& a) {
         return fmt::format(
             "2024-01-02 03:04:05,678 - mindformers[callback.py:324] - INFO - {{ Epoch:[{:3d}/  9], step:[{:5d}/  500], "
             "loss: {:.3f}, per_step_time: 812ms, lr: 1e-05, overflow cond: {}, loss_scale: {:.1f}\n",
             (a.number - 1) / 500 + 1, (a.number - 1) % 500 + 1, a.loss, a.skip ? "True" : "False", a.before);
       }});
  all.push_back({"Keras 2 with a callback", "keras2", {}, 5, [](const Attempt& a) {
                   return a.record ? fmt::format("{{\"step\": {}, \"loss\": {:.5f}, \"lr\": 0.001, \"loss_scale\": {:.1f}}}\n",
                                                 a.number, a.loss, a.after)
                                   : std::string();
                 }});
  all.push_back({"Keras 3 with a callback", "keras3", {}, 10, [](const Attempt& a) {
                   return a.record ? fmt::format("step={} loss={:.4f} loss_scale={}\n", a.number, a.loss, a.after)
                                   : std::string();
                 }});
  all.push_back({"Flax", "flax", {}, 1, [](const Attempt& a) {
                   return fmt::format(
                       "I0102 03:04:05.678901 140 train.py:88] step: {}, loss: {:.4f}, grad_norm: {}, scale: {}\n", a.number,
                       a.loss, a.skip ? std::string("inf") : fmt::format("{:.3f}", a.norm), a.after);
                 }});
  all.push_back({"jmp", "jmp", {}, 25, [](const Attempt& a) {
                   return a.record ? fmt::format("[train] step {} train_loss {:.4f} learning_rate 0.0003 loss_scale {}\n",
                                                 a.number, a.loss, a.after)
                                   : std::string();
                 }});
  return all;
}

std::string run(const Trainer& trainer, std::uint64_t seed) {
  Edge edge(seed);
  const auto policy = domain::make_policy(trainer.policy, trainer.parameters);
  const int length = 200 + static_cast<int>(5000 * edge.uniform() * edge.uniform());
  std::string log;
  Attempt a;
  for (int i = 0; i < length; ++i) {
    ++a.number;
    ++a.interval;
    a.before = policy->scale();
    a.skip = std::log2(a.before) + edge.next() > 16;
    policy->update(a.skip);
    a.after = policy->scale();
    a.hysteresis = policy->hysteresis_tracker().value_or(1);
    a.updates += a.skip ? 0 : 1;
    a.skipped += a.skip ? 1 : 0;
    a.skipped_total += a.skip ? 1 : 0;
    a.loss = 2 + 2 / (1 + 0.02 * i) + 0.1 * edge.uniform();
    a.norm = 1 + edge.uniform();
    a.record = i % trainer.every == trainer.every - 1;
    log += trainer.print(a);
    if (a.record) a.skipped = a.interval = 0;
  }
  return log;
}

TEST(Healthy, EveryScalersOwnWordsAreSilent) {
  for (const Trainer& trainer : trainers()) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      LogDoctor doctor;
      doctor.begin_file();
      doctor.feed(run(trainer, seed));
      doctor.end_file();
      doctor.finish();
      const auto diagnosis = doctor.diagnosis();
      std::string told;
      for (const auto& finding : diagnosis.findings) {
        if (finding.severity > domain::Severity::kInfo)
          told += fmt::format("\n  line {}: {}: {}", finding.line, finding.rule, finding.summary);
      }
      EXPECT_LE(diagnosis.verdict, domain::Severity::kInfo) << trainer.name << ", seed " << seed << told;
      EXPECT_GT(diagnosis.facts.attempts, 0U) << trainer.name;
    }
  }
}

}  // namespace
}  // namespace scalewatch::logimport
