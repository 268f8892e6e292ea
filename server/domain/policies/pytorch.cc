// torch.amp.GradScaler, FSDP's sharded one alike. Parameters: init_scale, growth_factor, backoff_factor, growth_interval. Its
// constructor asserts growth_factor > 1 and backoff_factor < 1.
#include <cmath>

#include "server/domain/policies/policies.h"

namespace scalewatch::domain {
namespace {

class PyTorchPolicy : public Policy {
 public:
  explicit PyTorchPolicy(ParameterReader& parameters)
      : Policy(static_cast<float>(parameters.positive({"init_scale"}, 65536))),
        growth_(parameters.above_one({"growth_factor"}, 2)),
        backoff_(parameters.below_one({"backoff_factor"}, 0.5)),
        interval_(parameters.count({"growth_interval"}, 2000)) {}

  [[nodiscard]] double growth_factor() const override { return growth_; }
  [[nodiscard]] double backoff_factor() const override { return backoff_; }
  [[nodiscard]] std::optional<std::int64_t> growth_interval() const override { return interval_; }

 protected:
  // The scale is a float tensor and the factors are doubles: each product is rounded to float once.
  void next(PolicyState& state, bool found_inf) const override {
    if (found_inf) {
      state.scale = static_cast<float>(state.scale * backoff_);
      state.clean = 0;
    } else if (++state.clean == interval_) {
      const auto grown = static_cast<float>(state.scale * growth_);
      if (std::isfinite(grown)) state.scale = grown;
      state.clean = 0;
    }
  }

 private:
  double growth_;
  double backoff_;
  std::int64_t interval_;
};

}  // namespace

std::unique_ptr<Policy> make_pytorch_policy(ParameterReader& parameters) {
  return std::make_unique<PyTorchPolicy>(parameters);
}

}  // namespace scalewatch::domain
