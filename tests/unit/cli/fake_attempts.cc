// Attempts of the fake run and of a baseline beside it, tensor by tensor.
#include <cmath>
#include <limits>

#include "tests/unit/cli/fake_data.h"

namespace scalewatch::cli {

namespace {

struct Tensor {
  const char* name;
  v1::Role role;
  std::uint32_t forward_index;
  float absmax;  // unscaled, at attempt 1
};

// In the order in which a server tells them: forward.
constexpr Tensor kTensors[] = {
    {"encoder.layers.0.attention.query_key_value.weight", v1::ROLE_GRADIENT, 0, 0.001F},
    {"encoder.layers.0.attention.query_key_value.weight", v1::ROLE_PARAMETER, 0, 0.5F},
    {"encoder.layers.0.attention.query_key_value.bias", v1::ROLE_GRADIENT, 1, 1e-6F},
    {"encoder.layers.0.out", v1::ROLE_ACTIVATION, 2, 12},
    {"attention.mask", v1::ROLE_ACTIVATION, 3, 1},
    {"head.out", v1::ROLE_ACTIVATION, 4, 30},
    {"head.out", v1::ROLE_ACTIVATION_GRADIENT, 4, 0.01F},
    {"head.weight", v1::ROLE_GRADIENT, 5, 0.02F},
    {"head.weight", v1::ROLE_PARAMETER, 5, 0.9F},
    {"head.weight.exp_avg_sq", v1::ROLE_OPTIMIZER_STATE, 5, 1e-5F},
};

bool under_scale(v1::Role role) {
  return role == v1::ROLE_GRADIENT || role == v1::ROLE_ACTIVATION_GRADIENT;
}

v1::Record record_of(const Tensor& tensor, std::uint64_t attempt, double scale, bool bad) {
  v1::Record out;
  const double stored = under_scale(tensor.role) ? scale : 1;
  const auto absmax = static_cast<float>(std::ldexp(tensor.absmax, static_cast<int>(attempt) / 2) * stored);
  out.set_numel(1000);
  out.set_zero(10);
  out.set_absmax(absmax);
  out.set_max(absmax);
  out.set_min(-absmax);
  out.set_absmin_nonzero(absmax / 1024);
  out.set_sum(absmax);
  out.set_sum_sq(100.0 * absmax * absmax);
  out.set_subnormal(tensor.role == v1::ROLE_GRADIENT ? 99 : 0);
  out.set_measured_under_scale(stored);
  out.set_target(v1::DTYPE_FP16);
  out.set_headroom(std::log2(65504.0 / absmax));
  out.set_micro_batches(2);
  if (bad) {
    out.set_nan(7);
    out.set_pos_inf(2);
    out.set_first_bad_micro(1);
  }
  if (std::string(tensor.name) == "attention.mask") out.set_neg_inf(500);
  return out;
}

v1::GetAttemptResponse attempt_of(std::uint64_t number, double scale, bool skipped, double drift) {
  v1::GetAttemptResponse out;
  auto& summary = *out.mutable_attempt();
  summary.set_segment(2);
  summary.set_attempt(number);
  summary.set_step(static_cast<std::int64_t>(number) - 1);
  summary.set_time_ms(kNow - 60'000 + static_cast<std::int64_t>(number) * 1000);
  summary.add_ranks(0);
  summary.add_ranks(1);
  summary.set_lr(0.1);
  if (skipped) {
    summary.set_loss(std::numeric_limits<double>::quiet_NaN());
    summary.set_grad_norm(std::numeric_limits<double>::infinity());
  } else {
    summary.set_loss(3.0 / static_cast<double>(number));
    summary.set_grad_norm(0.25 * static_cast<double>(number));
  }
  auto& point = *summary.add_scalers();
  point.set_first_attempt(number);
  point.set_last_attempt(number);
  point.set_scale_before(scale);
  point.set_scale_after(skipped ? scale / 2 : scale);
  point.set_growth_tracker(skipped ? 0 : number);
  point.set_applied(skipped ? 0 : 1);
  point.set_skipped(skipped ? 1 : 0);
  for (const auto& tensor : kTensors) {
    auto& told = *out.add_tensors();
    told.mutable_info()->set_name(tensor.name);
    told.mutable_info()->set_role(tensor.role);
    told.mutable_info()->set_dtype(under_scale(tensor.role) ? v1::DTYPE_FP16 : v1::DTYPE_FP32);
    told.mutable_info()->set_numel(1000);
    told.mutable_info()->set_forward_index(tensor.forward_index);
    const bool flows = tensor.role == v1::ROLE_ACTIVATION || under_scale(tensor.role);
    const bool bad = skipped && flows && (tensor.role != v1::ROLE_ACTIVATION || tensor.forward_index >= 4);
    *told.mutable_record() = record_of(tensor, number, scale, bad);
    if (drift != 1 && tensor.forward_index >= 2) {
      told.mutable_record()->set_sum_sq(told.record().sum_sq() * drift);
      told.mutable_record()->set_zero(600);
    }
    told.add_ranks(0);
    told.add_ranks(1);
  }
  return out;
}

}  // namespace

void add_attempts(FakeData& data) {
  double scale = 65536;
  for (std::uint64_t number = 1; number <= 9; ++number) {
    if (number == 4) continue;  // a gap: it was lost
    const bool skipped = number == 6;
    data.attempts.push_back(attempt_of(number, scale, skipped, 1));
    if (skipped) scale /= 2;
    data.baseline_attempts.push_back(attempt_of(number, 1, false, number >= 5 ? 64 : 1));
  }
  data.baseline = data.run;
  data.baseline.mutable_run()->set_name("digits-fp32");
  data.baseline.mutable_run()->set_run_uid("r-00");
  data.baseline.mutable_run()->set_compute_dtype(v1::DTYPE_FP32);
  auto& optimizer = *data.run.add_optimizers();
  optimizer.set_name("default");
  optimizer.set_class_name("Adam");
  optimizer.set_eps(1e-8);
  optimizer.set_weight_decay(0.01);
  optimizer.add_state_dtypes(v1::DTYPE_FP32);
}

}  // namespace scalewatch::cli
