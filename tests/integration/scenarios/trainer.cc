#include "tests/integration/scenarios/trainer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace scalewatch::scenarios {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr double kTooLarge = 66246.39;  // of fp16: what T5's feed-forward made in fp32
constexpr std::int64_t kPatienceMs = 20'000;

}  // namespace

std::uint16_t to_half(double x) {
  const auto sign = static_cast<unsigned>(std::signbit(x) ? 0x8000 : 0);
  const double size = std::abs(x);
  if (std::isnan(x)) return 0x7e00;
  if (size >= 65520) return static_cast<std::uint16_t>(sign | 0x7c00U);
  if (size < 0x1p-14) return static_cast<std::uint16_t>(sign | static_cast<unsigned>(std::nearbyint(size * 0x1p24)));
  int exponent = 0;
  const double fraction = std::frexp(size, &exponent);
  const auto mantissa = static_cast<unsigned>(std::nearbyint(fraction * 2048));  // 1024 to 2048, which carries
  return static_cast<std::uint16_t>(sign | ((static_cast<unsigned>(exponent + 14) << 10U) + mantissa - 1024));
}

void LossScale::update(bool found_inf) {
  if (found_inf) {
    tracker = 0;
    if (hysteresis > 1) {
      --hysteresis;
    } else {
      scale = std::max(scale / 2, floor);
    }
  } else if (++tracker == interval) {
    scale = std::min(scale * 2, ceiling);
    tracker = 0;
  }
}

void check(bool taken) {
  if (!taken) throw std::runtime_error(scalewatch_last_error());
}

void pace(Monitor& monitor, std::uint64_t attempt, std::uint32_t world_size) {
  const std::uint64_t every = world_size > 1 ? 4 : 32;
  if (attempt % every == 0) check(monitor.wait_durable(kPatienceMs));
}

void finish(Monitor& monitor) {
  check(monitor.wait_durable(kPatienceMs));
  check(monitor.close(kPatienceMs));
}

Monitor open_monitor(const Job& job, const Setup& setup) {
  MonitorOptions options;
  options.server = job.server;
  options.run = job.run;
  options.rank = setup.rank;
  options.world_size = setup.world_size;
  options.compute_dtype = setup.compute;
  options.framework = setup.framework;
  return Monitor(options);
}

Trainer::Trainer(const Job& job, const Setup& setup) : setup_(setup), monitor_(open_monitor(job, setup)) {
  scaler_ = monitor_.add_scaler("default", setup.policy, setup.parameters);
  monitor_.add_optimizer(setup.optimizer);
  std::uint32_t index = 0;
  for (const std::string& name : setup.layers) {
    const bool fp16 = std::find(setup.fp16_layers.begin(), setup.fp16_layers.end(), name) != setup.fp16_layers.end();
    const scalewatch_dtype stored = fp16 ? SCALEWATCH_FP16 : SCALEWATCH_FP32;
    const scalewatch_dtype gradients = fp16 ? SCALEWATCH_FP16 : setup.gradients;
    const std::string weight = name + ".weight";
    const std::string& by = setup.optimizer.name;
    Layer layer{};
    layer.fp16 = fp16;
    layer.output = monitor_.add_tensor({name, SCALEWATCH_ACTIVATION, SCALEWATCH_FP16, kElements, index, "", "", ""});
    layer.gradient = monitor_.add_tensor({weight, SCALEWATCH_GRADIENT, gradients, kElements, index, by, "", ""});
    layer.weight = monitor_.add_tensor({weight, SCALEWATCH_PARAMETER, stored, kElements, index, by, "", ""});
    layers_.push_back(layer);
    ++index;
  }
}

void Trainer::attempt(const Step& step) {
  check(monitor_.begin_attempt(step.step));
  if (step.lr) check(monitor_.set_lr(*step.lr));
  check(monitor_.set_input_non_finite(step.bad_input));
  forward(step);
  const bool bad_loss = poisoned_ || step.forward || step.nan_layer || !std::isfinite(step.loss);
  check(monitor_.set_loss(bad_loss && std::isfinite(step.loss) ? kNan : step.loss));
  const bool found = backward(step, bad_loss);
  const double before = setup_.scale.scale;
  if (!step.raised.empty()) {
    check(monitor_.misuse(step.raised.c_str(), step.detail.c_str(), true));
    check(monitor_.observe_scaler(scaler_, before, before, setup_.scale.tracker));
    check(monitor_.end_attempt());
    return;
  }
  const bool guarded = setup_.policy != "none";
  if (guarded) {
    setup_.scale.update(found);
    check(monitor_.observe_scaler(scaler_, before, setup_.scale.scale, setup_.scale.tracker,
                                  setup_.policy == "deepspeed" ? setup_.scale.hysteresis : -1));
  } else {
    poisoned_ = poisoned_ || found;
    check(monitor_.observe_scaler(scaler_, 1, 1));
  }
  const auto outcome = guarded && found ? SCALEWATCH_SKIPPED : SCALEWATCH_APPLIED;
  // A fused kernel skips inside itself: nobody is told.
  check(monitor_.observe_optimizer(scaler_, 0, found ? 1 : 0, found ? 1 : 0,
                                   setup_.optimizer.fused ? SCALEWATCH_OUTCOME_UNKNOWN : outcome));
  weights(poisoned_);
  check(monitor_.end_attempt());
  pace(monitor_, ++attempts_, setup_.world_size);
}

void Trainer::finish() {
  scenarios::finish(monitor_);
}

void Trainer::forward(const Step& step) {
  bool bad = poisoned_;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    std::vector<float> values = normal(step.activation);
    if (step.forward == i && !bad) values[kElements / 2] = static_cast<float>(kTooLarge);
    if (bad || step.nan_layer == i) std::fill(values.begin(), values.end(), kNan);
    observe(layers_[i].output, values, 1, true);
    bad = bad || step.forward == i || step.nan_layer == i;
  }
}

bool Trainer::backward(const Step& step, bool bad_loss) {
  if (step.no_gradients) return false;
  const double scale = setup_.policy == "none" ? 1 : setup_.scale.scale;
  bool bad = bad_loss;
  bool found = bad;
  std::vector<std::vector<float>> gradients(layers_.size());
  double sum_sq = 0;
  for (std::size_t i = layers_.size(); i-- > 0;) {
    std::vector<float>& values = gradients[i] = normal(step.gradient * scale);
    if (bad) std::fill(values.begin(), values.end(), kNan);
    if (step.backward == i && !bad) values[kElements / 2] = kInf;
    bad = bad || step.backward == i;
    for (const float value : values) {
      found = found || !std::isfinite(value);
      sum_sq += static_cast<double>(value) * static_cast<double>(value);
    }
  }
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    if (step.clip && !found) {
      const auto factor = static_cast<float>(*step.clip / std::sqrt(sum_sq));
      for (float& value : gradients[i]) value *= factor;
    }
    // Under an infinite scale values are what they are.
    observe(layers_[i].gradient, gradients[i], std::isfinite(scale) && scale > 0 ? scale : 1,
            setup_.gradients == SCALEWATCH_FP16 || layers_[i].fp16);
  }
  return found;
}

void Trainer::weights(bool bad) {
  for (const Layer& layer : layers_) {
    std::vector<float> values = normal(0.05);
    if (bad) std::fill(values.begin(), values.end(), kNan);
    observe(layer.weight, values, 1, layer.fp16);
  }
}

void Trainer::observe(std::uint32_t tensor, const std::vector<float>& values, double scale, bool half) {
  if (!half) return check(monitor_.observe(tensor, values.data(), values.size(), scale));
  std::vector<std::uint16_t> halves(values.size());
  std::transform(values.begin(), values.end(), halves.begin(), [](float x) { return to_half(static_cast<double>(x)); });
  check(monitor_.observe(tensor, halves.data(), halves.size(), scale));
}

std::vector<float> Trainer::normal(double size) {
  std::normal_distribution<double> distribution;
  std::vector<float> values(kElements);
  for (float& value : values) value = static_cast<float>(size * distribution(random_));
  return values;
}

}  // namespace scalewatch::scenarios
