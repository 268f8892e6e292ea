// torch.amp.GradScaler. Parameters: init_scale, growth_factor, backoff_factor, growth_interval.
#include <cmath>

#include "server/domain/policies/policies.h"

namespace scalewatch::domain {
namespace {

class PyTorchPolicy : public Policy {
 public:
  explicit PyTorchPolicy(const PolicyParameters& parameters)
      : init_(static_cast<float>(parameter_or(parameters, "init_scale", 65536))),
        growth_(parameter_or(parameters, "growth_factor", 2)),
        backoff_(parameter_or(parameters, "backoff_factor", 0.5)),
        interval_(static_cast<std::int64_t>(std::min(parameter_or(parameters, "growth_interval", 2000), 0x1p62))),
        scale_(init_) {}

  // The scale is a float tensor and the factors are doubles: each product is rounded to float once.
  double update(bool found_inf) override {
    if (found_inf) {
      scale_ = static_cast<float>(scale_ * backoff_);
      tracker_ = 0;
      return scale_;
    }
    if (++tracker_ == interval_) {
      const auto grown = static_cast<float>(scale_ * growth_);
      if (std::isfinite(grown)) scale_ = grown;
      tracker_ = 0;
    }
    return scale_;
  }
  [[nodiscard]] double scale() const override { return scale_; }
  [[nodiscard]] double init_scale() const override { return init_; }
  [[nodiscard]] bool dynamic() const override { return true; }

 private:
  float init_;
  double growth_;
  double backoff_;
  std::int64_t interval_;
  std::int64_t tracker_ = 0;
  float scale_;
};

}  // namespace

std::unique_ptr<Policy> make_pytorch_policy(const PolicyParameters& parameters) {
  return std::make_unique<PyTorchPolicy>(parameters);
}

}  // namespace scalewatch::domain
