// Dynamic loss scaling for C++ trainers, with the semantics of PyTorch's GradScaler. Works with or without a monitor.
//
//   scalewatch::LossScaler scaler({}, &monitor);  // reports each attempt; without a monitor: scalewatch::LossScaler scaler;
//   const auto adam = scaler.add_optimizer({"adam", "Adam"});
//   for (std::int64_t step = 0; step < steps; ++step) {
//     monitor.begin_attempt(step);
//     backward(scaler.scale(1.0F));  // starts from the scaled gradient of the loss; or scale the loss itself
//     scaler.unscale(adam, {{weight_grad.data(), weight_grad.size()}, {bias_grad.data(), bias_grad.size()}});
//     clip(weight_grad, bias_grad);             // gradients have their true size now
//     scaler.step(adam, [&] { adam_step(); });  // does not run when a gradient was NaN or infinite
//     scaler.update();                          // once an iteration, after every step()
//     monitor.end_attempt();
//   }
//
// Without clipping, step(adam, gradients, apply) unscales by itself.
// Accumulation: scale() and backward() for each micro-batch, then unscale(), step() and update() once, under one scale.
// Several optimizers: each is unscaled and stepped on its own and skips on its own; one update() for all, and one bad
// gradient backs the scale off for all.
// Several ranks: set_reduce() makes them decide alike.
// Checkpoints: state() and load_state(), between update() and the next scale(). The numbers come back exactly from text of
// 17 significant digits.
//
// The finite check looks at gradients before they are unscaled. The scale lives in float and has no floor. Wrong use throws
// std::logic_error and is reported to the monitor as misuse. Needs only C++17. Not thread-safe: one thread owns it.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "scalewatch/scalewatch.hpp"

namespace scalewatch {

struct LossScalerOptions {
  float init_scale = 65536.0F;           // finite, above 0
  double growth_factor = 2.0;            // above 1
  double backoff_factor = 0.5;           // in (0, 1)
  std::uint64_t growth_interval = 2000;  // clean updates before the scale grows; at least 1
  std::string name = "default";
  // A forgotten update() shows when an optimizer is unscaled or stepped again after a new scale(). It is reported as misuse
  // "update_missing" and refused, as PyTorch does. true: report it only, and go on under the unchanged scale.
  bool tolerate_missing_update = false;
};

// What survives a checkpoint.
struct LossScalerState {
  float scale = 65536.0F;
  double growth_factor = 2.0;
  double backoff_factor = 0.5;
  std::uint64_t growth_interval = 2000;
  std::uint64_t growth_tracker = 0;
};

// What arithmetic with a float gives: a half or an integer is computed in float, double stays double.
template <class T>
using Widened = std::conditional_t<std::is_same_v<T, double> || std::is_same_v<T, long double>, T, float>;

// One gradient tensor in host memory: unscaled in place, or from a source of one type into master gradients of another.
// T: float, double, _Float16 or any type that converts to and from float. Borrowed for the call.
class GradientView {
 public:
  template <class T>
  GradientView(T* data, std::size_t count) : GradientView(static_cast<const T*>(data), data, count) {}
  template <class Source, class Target>
  GradientView(const Source* from, Target* into, std::size_t count)
      : from_(from), into_(into), count_(count), unscale_(&unscale_as<Source, Target>) {}

  // Multiplies by inverse; true when an element of the source was NaN or infinite.
  bool unscale(float inverse) const { return unscale_(from_, into_, count_, inverse); }

 private:
  template <class Source, class Target>
  static bool unscale_as(const void* from, void* into, std::size_t count, float inverse) {
    using Wide = std::common_type_t<Widened<Source>, Widened<Target>>;
    const auto* source = static_cast<const Source*>(from);
    auto* target = static_cast<Target*>(into);
    bool bad = false;
    for (std::size_t i = 0; i < count; ++i) {
      const auto value = static_cast<Wide>(source[i]);
      bad |= !std::isfinite(value);
      target[i] = static_cast<Target>(value * static_cast<Wide>(inverse));
    }
    return bad;
  }

  const void* from_;
  void* into_;
  std::size_t count_;
  bool (*unscale_)(const void*, void*, std::size_t, float);
};

class LossScaler {
 public:
  using OptimizerId = std::uint32_t;
  // Turns this rank's found_inf of an optimizer into what all ranks go by (e.g. a sum over ranks). Called once an attempt and
  // optimizer, when its gradients were checked.
  using Reduce = std::function<double(OptimizerId, double found_inf_local)>;

  // Throws std::invalid_argument on options out of range. The monitor must outlive the scaler and have begun no attempt yet.
  explicit LossScaler(const LossScalerOptions& options = {}, Monitor* monitor = nullptr)
      : tolerate_missing_update_(options.tolerate_missing_update), monitor_(monitor) {
    if (!(options.init_scale > 0)) throw std::invalid_argument("init_scale must be above 0");
    LossScalerState state;
    state.scale = options.init_scale;
    state.growth_factor = options.growth_factor;
    state.backoff_factor = options.backoff_factor;
    state.growth_interval = options.growth_interval;
    check(state);
    state_ = state;
    if (monitor_ != nullptr) {
      monitor_scaler_ = monitor_->add_scaler(options.name, "pytorch",
                                             {{"init_scale", static_cast<double>(options.init_scale)},
                                              {"growth_factor", options.growth_factor},
                                              {"backoff_factor", options.backoff_factor},
                                              {"growth_interval", static_cast<double>(options.growth_interval)}});
    }
  }

  // Declares an optimizer of this scaler (to the monitor too); ids count from 0.
  OptimizerId add_optimizer(OptimizerOptions options = {}) {
    Optimizer optimizer;
    optimizer.name = options.name;
    if (monitor_ != nullptr) {
      options.scaler = monitor_scaler_;
      optimizer.monitor_id = monitor_->add_optimizer(options);
    }
    optimizers_.push_back(std::move(optimizer));
    return static_cast<OptimizerId>(optimizers_.size() - 1);
  }

  void set_reduce(Reduce reduce) { reduce_ = std::move(reduce); }

  // The loss (or the gradient that backward starts from) under the scale. A loss of fewer bits comes back as float: an fp16
  // could not hold even the scale.
  template <class T>
  Widened<T> scale(T loss) {
    scaled_ = true;
    ++scale_calls_;
    return static_cast<Widened<T>>(loss) * static_cast<Widened<T>>(state_.scale);
  }
  [[nodiscard]] float get_scale() const noexcept { return state_.scale; }
  [[nodiscard]] std::uint64_t growth_tracker() const noexcept { return state_.growth_tracker; }

  // Checks all gradients of an optimizer, then divides them by the scale; at most once between two updates.
  // Returns true when all were finite on every rank.
  bool unscale(OptimizerId id, const std::vector<GradientView>& gradients) {
    Optimizer& optimizer = find(id);
    notice_missing_update(optimizer);
    require_scaled("unscale()");
    if (optimizer.stage == Stage::kUnscaled) {
      refuse("unscale_twice",
             "unscale() has already been called on optimizer '" + optimizer.name + "' since the last update().");
    }
    if (optimizer.stage == Stage::kStepped) {
      refuse("unscale_after_step", "unscale() is being called after step() on optimizer '" + optimizer.name + "'.");
    }
    const auto inverse = static_cast<float>(1.0 / static_cast<double>(state_.scale));
    bool bad = false;
    for (const GradientView& gradient : gradients) bad |= gradient.unscale(inverse);
    optimizer.stage = Stage::kUnscaled;  // before reduce_, which may throw: they must not be divided again
    optimizer.found_inf_local = bad ? 1.0 : 0.0;
    optimizer.found_inf = reduce_ ? reduce_(id, optimizer.found_inf_local) : optimizer.found_inf_local;
    optimizer.checked = !gradients.empty();
    return optimizer.found_inf == 0.0;
  }

  // Runs apply() unless a gradient of this optimizer was not finite; true when it ran. The gradients were unscaled before.
  template <class Apply>
  bool step(OptimizerId id, Apply&& apply) {
    Optimizer& optimizer = find(id);
    notice_missing_update(optimizer);
    require_scaled("step()");
    if (optimizer.stage == Stage::kStepped) {
      refuse("step_twice", "step() has already been called on optimizer '" + optimizer.name + "' since the last update().");
    }
    if (optimizer.stage == Stage::kReady || !optimizer.checked) {
      refuse("no_inf_checks", "No inf checks were recorded for optimizer '" + optimizer.name +
                                  "': give its gradients to unscale() or step() first.");
    }
    const bool applied = optimizer.found_inf == 0.0;
    if (applied) std::forward<Apply>(apply)();
    optimizer.stage = Stage::kStepped;
    optimizer.scale_calls_at_step = scale_calls_;
    if (monitor_ != nullptr) {
      // Said now, so that the attempt shows it even when update() never comes.
      monitor_->observe_optimizer(monitor_scaler_, optimizer.monitor_id, optimizer.found_inf_local, optimizer.found_inf,
                                  applied ? SCALEWATCH_APPLIED : SCALEWATCH_SKIPPED);
      observe_scale(state_.scale);
    }
    return applied;
  }

  // The same, unscaling the gradients first if that was not done.
  template <class Apply>
  bool step(OptimizerId id, const std::vector<GradientView>& gradients, Apply&& apply) {
    Optimizer& optimizer = find(id);
    notice_missing_update(optimizer);
    if (optimizer.stage == Stage::kReady) unscale(id, gradients);
    return step(id, std::forward<Apply>(apply));
  }

  // Ends the scaler's part of the attempt: backs the scale off when any optimizer found a non-finite gradient, else counts
  // towards growth.
  void update() {
    require_scaled("update()");
    double found_inf = 0;
    bool checked = false;
    for (const Optimizer& optimizer : optimizers_) {
      if (!optimizer.checked) continue;
      checked = true;
      found_inf += optimizer.found_inf;
    }
    if (!checked) refuse("update_without_checks", "No inf checks were recorded prior to update().");
    const float before = state_.scale;
    if (found_inf != 0.0) {
      state_.scale = static_cast<float>(static_cast<double>(state_.scale) * state_.backoff_factor);
      state_.growth_tracker = 0;
    } else if (++state_.growth_tracker == state_.growth_interval) {
      const auto grown = static_cast<float>(static_cast<double>(state_.scale) * state_.growth_factor);
      if (std::isfinite(grown)) state_.scale = grown;
      state_.growth_tracker = 0;
    }
    finish(before);
  }

  // Sets the scale by hand and leaves the growth tracker as it was.
  void update(float new_scale) {
    require_scaled("update()");
    if (!(new_scale > 0) || !std::isfinite(new_scale)) {
      refuse("bad_scale", "update(new_scale) needs a finite scale above 0.");
    }
    const float before = state_.scale;
    state_.scale = new_scale;
    finish(before);
  }

  [[nodiscard]] LossScalerState state() const { return state_; }
  // Throws std::invalid_argument on values out of range; the scaler is then as it was.
  void load_state(const LossScalerState& state) {
    check(state);
    state_ = state;
  }

 private:
  enum class Stage : std::uint8_t { kReady, kUnscaled, kStepped };
  struct Optimizer {
    std::string name;
    std::uint32_t monitor_id = 0;
    Stage stage = Stage::kReady;
    bool checked = false;  // found_inf holds for this attempt
    double found_inf_local = 0;
    double found_inf = 0;  // decided
    std::uint64_t scale_calls_at_step = 0;
  };

  static void check(const LossScalerState& state) {
    // A scale of 0 is legal in a state: a scaler without a floor can get there by itself.
    if (!(state.scale >= 0) || !std::isfinite(state.scale)) throw std::invalid_argument("scale must be finite, at least 0");
    if (!(state.growth_factor > 1) || !std::isfinite(state.growth_factor)) {
      throw std::invalid_argument("growth_factor must be finite and above 1");
    }
    if (!(state.backoff_factor > 0 && state.backoff_factor < 1)) {
      throw std::invalid_argument("backoff_factor must be above 0 and below 1");
    }
    if (state.growth_interval == 0) throw std::invalid_argument("growth_interval must be at least 1");
  }

  Optimizer& find(OptimizerId id) {
    if (id >= optimizers_.size()) throw std::invalid_argument("unknown optimizer: add_optimizer() gives the id");
    return optimizers_[id];
  }

  [[noreturn]] void refuse(const char* kind, const std::string& message) {
    if (monitor_ != nullptr) monitor_->misuse(kind, message.c_str(), true);
    throw std::logic_error(message);
  }

  void require_scaled(const char* function) {
    if (scaled_) return;
    refuse("step_without_scale", std::string("Attempted ") + function + " but scale() was never called.");
  }

  // A step after a new scale() with no update() between means that update() was forgotten.
  void notice_missing_update(Optimizer& optimizer) {
    if (optimizer.stage != Stage::kStepped || optimizer.scale_calls_at_step == scale_calls_) return;
    const std::string message = "step() has already been called on optimizer '" + optimizer.name +
                                "' since the last update(): call update() once an iteration, after every step().";
    if (!tolerate_missing_update_) refuse("update_missing", message);
    if (monitor_ != nullptr) monitor_->misuse("update_missing", message.c_str(), false);
    optimizer.stage = Stage::kReady;
    optimizer.checked = false;
  }

  void observe_scale(float before) {
    monitor_->observe_scaler(monitor_scaler_, static_cast<double>(before), static_cast<double>(state_.scale),
                             static_cast<std::int64_t>(state_.growth_tracker));
  }

  void finish(float before) {
    for (Optimizer& optimizer : optimizers_) {
      optimizer.stage = Stage::kReady;
      optimizer.checked = false;
    }
    if (monitor_ != nullptr) observe_scale(before);
  }

  LossScalerState state_;
  bool tolerate_missing_update_;
  bool scaled_ = false;  // scale() was called at least once
  std::uint64_t scale_calls_ = 0;
  std::vector<Optimizer> optimizers_;
  Reduce reduce_;
  Monitor* monitor_ = nullptr;
  Monitor::ScalerId monitor_scaler_ = 0;
};

}  // namespace scalewatch
