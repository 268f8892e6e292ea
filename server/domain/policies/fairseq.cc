// fairseq's DynamicLossScaler. Parameters: init_scale, scale_factor, scale_window (2^14 / data-parallel size / update_freq on
// its command line, where init_scale is 2^7), tolerance (share of overflows since the last change that lowers the scale),
// threshold (threshold_loss_scale; 0: none), min_loss_scale (at or below it, it raises).
#include <fmt/format.h>

#include <algorithm>

#include "server/domain/policies/policies.h"

namespace scalewatch::domain {
namespace {

class FairseqPolicy : public Policy {
 public:
  explicit FairseqPolicy(ParameterReader& parameters)
      : Policy(parameters.positive({"init_scale", "fp16_init_scale"}, 0x1p15)),
        factor_(parameters.positive({"scale_factor"}, 2)),
        window_(parameters.count({"scale_window", "fp16_scale_window"}, 2000)),
        tolerance_(parameters.zero_or_more({"tolerance", "fp16_scale_tolerance"}, 0)),
        threshold_(parameters.bound({"threshold", "threshold_loss_scale"}, std::nullopt)),
        min_(parameters.zero_or_more({"min_loss_scale"}, 1e-4)) {}

  [[nodiscard]] double growth_factor() const override { return factor_; }
  [[nodiscard]] double backoff_factor() const override { return 1 / factor_; }
  [[nodiscard]] std::optional<std::int64_t> growth_interval() const override { return window_; }
  [[nodiscard]] std::optional<double> floor() const override { return std::max(threshold_.value_or(0), min_); }
  [[nodiscard]] bool at_floor() const override { return lowered(scale()) == scale() || lowered(scale()) <= min_; }

 protected:
  // `clean` counts from the last overflow and goes on through growths.
  void next(PolicyState& state, bool found_inf) const override {
    ++state.attempts;
    if (found_inf) {
      const double before = state.scale;
      state.clean = 0;
      ++state.overflows;
      if (static_cast<double>(state.overflows) / static_cast<double>(state.attempts) >= tolerance_) {
        state.scale = lowered(state.scale);
        state.attempts = 0;
        state.overflows = 0;
      }
      if (state.scale <= min_) {
        state.scale = before;
        state.ended = true;
      }
    } else if (++state.clean % window_ == 0) {
      state.scale *= factor_;
      state.attempts = 0;  // the overflows count on
    }
  }
  [[nodiscard]] std::string fatal_words() const override {
    return fmt::format("Minimum loss scale reached ({}). Your loss is probably exploding.", min_);
  }

 private:
  [[nodiscard]] double lowered(double scale) const { return std::max(scale / factor_, threshold_.value_or(0)); }

  double factor_;
  std::int64_t window_;
  double tolerance_;
  std::optional<double> threshold_;
  double min_;
};

}  // namespace

std::unique_ptr<Policy> make_fairseq_policy(ParameterReader& parameters) {
  return std::make_unique<FairseqPolicy>(parameters);
}

}  // namespace scalewatch::domain
