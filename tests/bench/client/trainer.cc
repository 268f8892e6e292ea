#include "tests/bench/client/trainer.h"

#include <chrono>

namespace scalewatch::bench {
namespace {

MonitorOptions options(const std::string& server, const std::string& run) {
  MonitorOptions made;
  made.run = run;
  made.server = server;
  return made;
}

// The forward pass that lies between an attempt's beginning and its first gradient, short as it may be.
void forward() {
  using Clock = std::chrono::steady_clock;
  for (const auto end = Clock::now() + std::chrono::microseconds(50); Clock::now() < end;) {
  }
}

}  // namespace

Trainer::Trainer(const std::string& server, const std::string& run) : monitor_(options(server, run)) {
  scaler_ = monitor_.add_scaler("default", "pytorch", {{"init_scale", 65536}, {"growth_interval", 2000}});
  monitor_.add_optimizer({});
  for (std::uint32_t i = 0; i < kTensors; ++i) {
    tensors_.push_back(monitor_.add_tensor(
        {"layers." + std::to_string(i) + ".weight", SCALEWATCH_GRADIENT, SCALEWATCH_FP32, kNumel, i, "default", "", ""}));
  }
  record_.size = sizeof record_;
  record_.numel = kNumel;
  record_.min = -0.5F;
  record_.max = 0.5F;
  record_.absmin_nonzero = 0.001F;
  record_.sum_sq = 1;
}

void Trainer::attempt(Samples* observe, Samples* end) {
  monitor_.begin_attempt(++step_);
  if (observe != nullptr) forward();
  record_.subnormal = static_cast<std::uint64_t>(step_) % kNumel;
  for (const std::uint32_t tensor : tensors_) {
    const std::uint64_t begin = observe == nullptr ? 0 : ticks();
    scalewatch_observe_record(monitor_.handle(), tensor, &record_, 65536, 0);
    if (observe != nullptr) observe->add(ticks() - begin);
  }
  monitor_.observe_scaler(scaler_, 65536, 65536, step_ % 2000);
  monitor_.observe_optimizer(scaler_, 0, 0, 0, SCALEWATCH_APPLIED);
  monitor_.set_loss(1);
  const std::uint64_t begin = end == nullptr ? 0 : ticks();
  monitor_.end_attempt();
  if (end != nullptr) end->add(ticks() - begin);
}

void Trainer::measured_attempt(Samples& observe) {
  monitor_.begin_attempt(++step_);
  forward();
  for (const std::uint32_t tensor : tensors_) {
    const std::uint64_t begin = ticks();
    monitor_.observe(tensor, data_.data(), data_.size(), 65536);
    observe.add(ticks() - begin);
  }
  monitor_.end_attempt();
}

std::uint64_t Trainer::first_observation() {
  monitor_.begin_attempt(++step_);
  forward();
  const std::uint64_t begin = ticks();
  scalewatch_observe_record(monitor_.handle(), tensors_[0], &record_, 65536, 0);
  const std::uint64_t time = ticks() - begin;
  monitor_.end_attempt();
  return time;
}

}  // namespace scalewatch::bench
