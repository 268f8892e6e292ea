// Flax's DynamicScale. Parameters: scale, growth_factor, backoff_factor, growth_interval, minimum_scale (0: none).
#include <algorithm>
#include <limits>

#include "server/domain/policies/policies.h"

namespace scalewatch::domain {
namespace {

constexpr double kTiny = std::numeric_limits<float>::min();
constexpr double kMax = std::numeric_limits<float>::max();

class FlaxPolicy : public Policy {
 public:
  explicit FlaxPolicy(ParameterReader& parameters)
      : Policy(static_cast<float>(parameters.positive({"scale", "init_scale"}, 65536))),
        growth_(parameters.positive({"growth_factor"}, 2)),
        backoff_(parameters.positive({"backoff_factor"}, 0.5)),
        interval_(parameters.count({"growth_interval"}, 2000)),
        floor_(parameters.bound({"minimum_scale"}, kTiny)) {
    if (floor_) floor_ = static_cast<float>(*floor_);
  }

  [[nodiscard]] double growth_factor() const override { return growth_; }
  [[nodiscard]] double backoff_factor() const override { return backoff_; }
  [[nodiscard]] std::optional<std::int64_t> growth_interval() const override { return interval_; }
  [[nodiscard]] std::optional<double> floor() const override { return floor_; }
  [[nodiscard]] std::optional<double> ceiling() const override { return kMax; }

 protected:
  // It looks at its counter before it counts: a growth takes one clean attempt more than the interval, every time.
  void next(PolicyState& state, bool found_inf) const override {
    if (found_inf) {
      state.scale = times_fp32(state.scale, backoff_);
      if (floor_) state.scale = std::max(state.scale, *floor_);
      state.clean = 0;
    } else if (state.clean == interval_) {
      state.scale = std::min(times_fp32(state.scale, growth_), kMax);
      state.clean = 0;
    } else {
      ++state.clean;
    }
  }

 private:
  double growth_;
  double backoff_;
  std::int64_t interval_;
  std::optional<double> floor_;
};

}  // namespace

std::unique_ptr<Policy> make_flax_policy(ParameterReader& parameters) {
  return std::make_unique<FlaxPolicy>(parameters);
}

}  // namespace scalewatch::domain
