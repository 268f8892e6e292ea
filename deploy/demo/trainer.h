// One rank's training loop: batch, forward, backward, all-reduce, unscale, step, update.
//
// Deterministic: the same options and rank count give the same numbers on every machine. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "deploy/demo/adam.h"
#include "deploy/demo/data.h"
#include "deploy/demo/model.h"
#include "deploy/demo/ranks.h"
#include "deploy/demo/watch.h"
#include "scalewatch/loss_scaler.hpp"

namespace scalewatch::demo {

enum class Mode : std::uint8_t {
  kHealthy,   // learns; the scale grows to the edge and is turned back there now and then
  kHot,       // a learning rate far too high: activations grow until fp16 overflows
  kNanData,   // one batch in the middle holds a corrupted record (on the last rank)
  kNoUpdate,  // scaler.update() is forgotten: the scale, meant to come down by itself, stays where it began
};
std::optional<Mode> parse_mode(std::string_view name);  // "healthy", "hot", "nan-data", "no-update"
std::string_view name_of(Mode mode);

struct TrainerOptions {
  Mode mode = Mode::kHealthy;
  std::uint64_t steps = 400;
  std::size_t batch = 64;  // samples of one rank
  std::uint64_t seed = 1;
  std::optional<double> lr;                      // after warm-up; absent = the mode's
  std::optional<double> init_scale;              // absent = the mode's
  std::optional<std::uint32_t> growth_interval;  // absent = 100
  std::optional<double> backoff;                 // absent = 0.5
};

struct StepResult {
  double loss = 0;
  double lr = 0;
  double gradient_norm = 0;  // unscaled, over all ranks' mean
  double scale_before = 0;
  double scale_after = 0;
  bool applied = false;
  bool input_non_finite = false;
};

class Trainer {
 public:
  // monitor: may be null (nothing is observed). corpus, monitor and group must outlive the trainer. Declares tensors, scaler
  // and optimizer to the monitor.
  Trainer(const TrainerOptions& options, const Corpus& corpus, RankGroup& group, std::uint32_t rank, Monitor* monitor);

  // One attempt; steps count from 1.
  StepResult step(std::uint64_t step);

  // What a RankGroup must hold for the model that learns this text.
  static std::size_t gradient_elements(const Corpus& corpus);

 private:
  [[nodiscard]] double learning_rate() const;

  TrainerOptions options_;
  const Corpus& corpus_;
  RankGroup& group_;
  std::uint32_t rank_;
  Monitor* monitor_;
  Random random_;
  Model<Half> model_;
  Adam adam_;
  LossScaler scaler_;
  LossScaler::OptimizerId optimizer_;
  std::optional<Watch> watch_;
};

}  // namespace scalewatch::demo
