// Colossal-AI's DynamicGradScaler. Parameters: initial_scale, growth_factor, backoff_factor, growth_interval, min_scale and
// max_scale (0: none, as in the bare class; the hybrid and Gemini plugins pass 1 and 2^32), hysteresis.
#include <algorithm>
#include <limits>

#include "server/domain/policies/policies.h"

namespace scalewatch::domain {
namespace {

class ColossalAiPolicy : public Policy {
 public:
  explicit ColossalAiPolicy(ParameterReader& parameters)
      : Policy(static_cast<float>(parameters.positive({"initial_scale", "init_scale"}, 0x1p16))),
        floor_(parameters.bound({"min_scale"}, std::nullopt)),
        ceiling_(parameters.bound({"max_scale"}, std::nullopt)),
        growth_(parameters.positive({"growth_factor"}, 2)),
        backoff_(parameters.positive({"backoff_factor"}, 0.5)),
        interval_(parameters.count({"growth_interval"}, 1000)),
        hysteresis_(parameters.hysteresis({"hysteresis"}, 2)) {
    state_.hysteresis = hysteresis_;
  }

  [[nodiscard]] std::int32_t hysteresis() const override { return hysteresis_; }
  [[nodiscard]] double growth_factor() const override { return growth_; }
  [[nodiscard]] double backoff_factor() const override { return backoff_; }
  [[nodiscard]] std::optional<std::int64_t> growth_interval() const override { return interval_; }
  [[nodiscard]] std::optional<double> floor() const override { return floor_; }
  [[nodiscard]] std::optional<double> ceiling() const override { return ceiling_; }

 protected:
  // The class counts overflows up to the hysteresis; here what is left of it counts down. Only growth refills it.
  void next(PolicyState& state, bool found_inf) const override {
    if (found_inf) {
      state.clean = 0;
      if (state.hysteresis > std::numeric_limits<std::int32_t>::min()) --state.hysteresis;
      if (state.hysteresis <= 0) {
        state.scale = times_fp32(state.scale, backoff_);
        if (floor_) state.scale = std::max(state.scale, *floor_);
      }
    } else if (++state.clean == interval_) {
      state.clean = 0;
      state.hysteresis = hysteresis_;
      state.scale = times_fp32(state.scale, growth_);
      if (ceiling_) state.scale = std::min(state.scale, *ceiling_);
    }
  }
  [[nodiscard]] bool has_hysteresis() const override { return true; }

 private:
  std::optional<double> floor_;
  std::optional<double> ceiling_;
  double growth_;
  double backoff_;
  std::int64_t interval_;
  std::int32_t hysteresis_;
};

}  // namespace

std::unique_ptr<Policy> make_colossalai_policy(ParameterReader& parameters) {
  return std::make_unique<ColossalAiPolicy>(parameters);
}

}  // namespace scalewatch::domain
