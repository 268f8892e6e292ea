#include <algorithm>
#include <array>

#include "server/domain/advice/advice.h"

namespace scalewatch::domain {
namespace {

using Give = std::optional<Advice> (*)(const AdviceContext&);

constexpr std::array<Give, 37> kAdvice{
    advise_anomaly_mode,
    advise_beyond_scale,
    advise_bf16,
    advise_calm,
    advise_calmer_scaler,
    advise_check_gradients,
    advise_clip_after_unscale,
    advise_enable_scaler,
    advise_find_hang,
    advise_fp32_layer,
    advise_fp32_loss,
    advise_init_scale,
    advise_keep_statistics,
    advise_look_at_data,
    advise_look_at_hosts,
    advise_lower_learning_rate,
    advise_misuse,
    advise_optimizer_precision,
    advise_raise_floor,
    advise_reduce_found_inf,
    advise_reduce_in_fp32,
    advise_restore_checkpoint,
    advise_restore_scaler,
    advise_resume_earlier,
    advise_server_behind,
    advise_skip_non_finite,
    advise_step_frozen,
    advise_suspect_gpu,
    advise_update_once,
    advise_fit_range,
    advise_fp8_scaling,
    advise_master_weights,
    advise_optimizer_state,
    advise_raise_scale,
    advise_tame_gradient,
    advise_trace_activation,
    advise_untrained_tensor,
};

}  // namespace

const std::string& AdviceContext::tensor() const {
  static const std::string kNone;
  return finding.blame ? finding.blame->tensor : kNone;
}

std::optional<double> AdviceContext::evidence(std::string_view name) const {
  for (const Evidence& evidence : finding.evidence) {
    if (evidence.name == name) return evidence.value;
  }
  return std::nullopt;
}

const ScalerTrack* AdviceContext::scaler() const {
  for (const ScalerTrack& track : run.scalers) {
    if (track.info.name == finding.subject.substr(0, finding.subject.find('/')) || track.info.name == finding.subject)
      return &track;
  }
  return run.scalers.size() == 1 ? &run.scalers.front() : nullptr;
}

bool AdviceContext::skips() const {
  return rule_is_one_of("FrequentSkippedSteps", "ConsecutiveSkips", "NeverApplied", "ScaleCollapse", "ScaleVanished",
                        "NonFiniteGradient", "ScaleAtMinimum", "StepFrozen", "ScaleStuck", "ScaleDrift");
}

bool AdviceContext::narrow_format() const {
  return run.compute_dtype == DType::kFp16 || run.compute_dtype == DType::kE4m3fn || run.compute_dtype == DType::kE5m2 ||
         (run.compute_dtype == DType::kUnspecified && scaler() != nullptr);
}

std::vector<Advice> advise(const Finding& finding, const RunModel& run) {
  std::vector<Advice> advice;
  const AdviceContext context{finding, run};
  for (const Give give : kAdvice) {
    if (auto one = give(context)) advice.push_back(std::move(*one));
  }
  std::stable_sort(advice.begin(), advice.end(), [](const Advice& a, const Advice& b) { return a.confidence > b.confidence; });
  if (advice.size() > kMaxAdvice) advice.resize(kMaxAdvice);
  return advice;
}

}  // namespace scalewatch::domain
