#include "deploy/demo/trainer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

namespace scalewatch::demo {
namespace {

struct ModeSettings {
  Mode mode;
  std::string_view name;
  double lr;
  double warm_up;  // applied steps until the learning rate is reached
  double init_scale;
};
constexpr std::array<ModeSettings, 4> kModes{{
    {Mode::kHealthy, "healthy", 3e-3, 20, 0x1p15},
    {Mode::kHot, "hot", 2, 100, 0x1p15},
    {Mode::kNanData, "nan-data", 3e-3, 20, 0x1p15},
    {Mode::kNoUpdate, "no-update", 3e-3, 20, 0x1p22},
}};
constexpr std::uint32_t kGrowthInterval = 100;  // short, so that a short run sees the scale grow

const ModeSettings& settings(Mode mode) {
  return *std::find_if(kModes.begin(), kModes.end(), [mode](const ModeSettings& s) { return s.mode == mode; });
}

LossScalerOptions scaler_options(const TrainerOptions& options) {
  LossScalerOptions scaler;
  scaler.init_scale = static_cast<float>(options.init_scale.value_or(settings(options.mode).init_scale));
  scaler.growth_interval = options.growth_interval.value_or(kGrowthInterval);
  if (options.backoff) scaler.backoff_factor = static_cast<float>(*options.backoff);
  scaler.tolerate_missing_update = options.mode == Mode::kNoUpdate;
  return scaler;
}

OptimizerOptions optimizer_options(double lr) {
  OptimizerOptions optimizer;
  optimizer.name = "adam";
  optimizer.class_name = "Adam";
  optimizer.lr = lr;
  optimizer.beta1 = static_cast<double>(Adam::kBeta1);
  optimizer.beta2 = static_cast<double>(Adam::kBeta2);
  optimizer.eps = static_cast<double>(Adam::kEpsilon);
  optimizer.state_dtypes = {SCALEWATCH_FP32, SCALEWATCH_FP32};
  return optimizer;
}

Shape shape_of(const Corpus& corpus) {
  Shape shape;
  shape.vocabulary = corpus.vocabulary();
  return shape;
}

}  // namespace

std::optional<Mode> parse_mode(std::string_view name) {
  for (const auto& entry : kModes) {
    if (entry.name == name) return entry.mode;
  }
  return std::nullopt;
}

std::string_view name_of(Mode mode) {
  return settings(mode).name;
}

Trainer::Trainer(const TrainerOptions& options, const Corpus& corpus, RankGroup& group, std::uint32_t rank, Monitor* monitor)
    : options_(options),
      corpus_(corpus),
      group_(group),
      rank_(rank),
      monitor_(monitor),
      random_(options.seed * 0x10001 + rank + 1),             // every rank draws its own samples
      model_(shape_of(corpus), options.batch, options.seed),  // and begins with the same weights
      adam_(model_.parameters()),
      scaler_(scaler_options(options), monitor),
      optimizer_(scaler_.add_optimizer(optimizer_options(options.lr.value_or(settings(options.mode).lr)))) {
  if (monitor_ != nullptr) watch_.emplace(*monitor_, model_, "adam", rank, group.ranks());
}

std::size_t Trainer::gradient_elements(const Corpus& corpus) {
  Model<Half> model(shape_of(corpus), 1, 0);
  std::size_t elements = 0;
  for (const auto& parameter : model.parameters()) elements += parameter.value.size();
  return elements;
}

double Trainer::learning_rate() const {
  const ModeSettings& mode = settings(options_.mode);
  return options_.lr.value_or(mode.lr) * std::min(1.0, static_cast<double>(adam_.steps() + 1) / mode.warm_up);
}

StepResult Trainer::step(std::uint64_t step) {
  if (monitor_ != nullptr) monitor_->begin_attempt(static_cast<std::int64_t>(step));
  StepResult result;
  Batch batch = corpus_.sample(random_, options_.batch, Shape{}.context, rank_, group_.ranks());
  if (options_.mode == Mode::kNanData && step == (options_.steps + 1) / 2 && rank_ + 1 == group_.ranks()) corrupt(batch, 3, 4);
  result.input_non_finite = !std::all_of(batch.weights.begin(), batch.weights.end(), [](float w) { return std::isfinite(w); });

  result.loss = model_.forward(batch);
  if (watch_) watch_->activations(model_);

  result.scale_before = static_cast<double>(scaler_.get_scale());
  model_.backward(batch, static_cast<double>(scaler_.scale(1.0F)));
  std::vector<std::span<Half>> gradients;
  for (auto& parameter : model_.parameters()) gradients.emplace_back(parameter.gradient);
  group_.average(rank_, gradients);
  if (watch_) watch_->backward(model_, result.scale_before);

  std::vector<GradientView> views;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    views.emplace_back(gradients[i].data(), adam_.states()[i].gradient.data(), gradients[i].size());
  }
  scaler_.unscale(optimizer_, views);
  result.gradient_norm = adam_.gradient_norm();
  result.lr = learning_rate();
  result.applied = scaler_.step(optimizer_, [&] { adam_.step(model_.parameters(), result.lr); });
  if (options_.mode != Mode::kNoUpdate) scaler_.update();
  result.scale_after = static_cast<double>(scaler_.get_scale());

  if (monitor_ != nullptr) {
    watch_->weights(model_, adam_);
    monitor_->set_loss(result.loss);
    monitor_->set_lr(result.lr);
    monitor_->set_grad_norm(result.gradient_norm);
    monitor_->set_input_non_finite(result.input_non_finite);
    monitor_->end_attempt();
  }
  return result;
}

}  // namespace scalewatch::demo
