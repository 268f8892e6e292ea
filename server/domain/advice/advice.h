// What to do about a finding, from its evidence and what is known of the run. One file each in this folder, one line each in
// list.cc. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/domain/finding.h"
#include "server/domain/model.h"

namespace scalewatch::domain {

struct AdviceContext {
  const Finding& finding;
  const RunModel& run;

  [[nodiscard]] bool rule(std::string_view name) const { return finding.rule == name; }
  template <class... Names>
  [[nodiscard]] bool rule_is_one_of(Names... names) const {
    return ((finding.rule == names) || ...);
  }
  // Where it began; empty without blame.
  [[nodiscard]] std::string_view where() const { return finding.blame ? std::string_view(finding.blame->where) : ""; }
  [[nodiscard]] const std::string& tensor() const;
  [[nodiscard]] std::optional<double> evidence(std::string_view name) const;
  // The scaler that the finding is about; the only one where it names none. Null when unknown.
  [[nodiscard]] const ScalerTrack* scaler() const;
  // Values had been growing fast before they overflowed: the steps are too large, whatever layer gave way first.
  [[nodiscard]] bool grew() const { return finding.blame && finding.blame->octaves_fallen >= kGrewOctaves; }
  static constexpr double kGrewOctaves = 2;  // 4 times, over the few attempts that RankState looks back
  // The finding is that steps were skipped, or what comes of it.
  [[nodiscard]] bool skips() const;
  // The computation runs in a format whose range is the trouble: fp16 or fp8 (with a scaler and no word of it, fp16).
  [[nodiscard]] bool narrow_format() const;
  [[nodiscard]] const std::string& kind() const {
    static const std::string kNone;
    return finding.blame ? finding.blame->kind : kNone;
  }
};

// Every advice that applies, most certain first; at most kMaxAdvice.
constexpr std::size_t kMaxAdvice = 5;
std::vector<Advice> advise(const Finding& finding, const RunModel& run);

// What list.cc registers.
std::optional<Advice> advise_anomaly_mode(const AdviceContext& context);
std::optional<Advice> advise_beyond_scale(const AdviceContext& context);
std::optional<Advice> advise_bf16(const AdviceContext& context);
std::optional<Advice> advise_calm(const AdviceContext& context);
std::optional<Advice> advise_calmer_scaler(const AdviceContext& context);
std::optional<Advice> advise_check_gradients(const AdviceContext& context);
std::optional<Advice> advise_clip_after_unscale(const AdviceContext& context);
std::optional<Advice> advise_enable_scaler(const AdviceContext& context);
std::optional<Advice> advise_find_hang(const AdviceContext& context);
std::optional<Advice> advise_fp32_layer(const AdviceContext& context);
std::optional<Advice> advise_fp32_loss(const AdviceContext& context);
std::optional<Advice> advise_init_scale(const AdviceContext& context);
std::optional<Advice> advise_keep_statistics(const AdviceContext& context);
std::optional<Advice> advise_look_at_data(const AdviceContext& context);
std::optional<Advice> advise_look_at_hosts(const AdviceContext& context);
std::optional<Advice> advise_lower_learning_rate(const AdviceContext& context);
std::optional<Advice> advise_misuse(const AdviceContext& context);
std::optional<Advice> advise_optimizer_precision(const AdviceContext& context);
std::optional<Advice> advise_raise_floor(const AdviceContext& context);
std::optional<Advice> advise_reduce_found_inf(const AdviceContext& context);
std::optional<Advice> advise_reduce_in_fp32(const AdviceContext& context);
std::optional<Advice> advise_restore_checkpoint(const AdviceContext& context);
std::optional<Advice> advise_restore_scaler(const AdviceContext& context);
std::optional<Advice> advise_resume_earlier(const AdviceContext& context);
std::optional<Advice> advise_server_behind(const AdviceContext& context);
std::optional<Advice> advise_skip_non_finite(const AdviceContext& context);
std::optional<Advice> advise_step_frozen(const AdviceContext& context);
std::optional<Advice> advise_suspect_gpu(const AdviceContext& context);
std::optional<Advice> advise_update_once(const AdviceContext& context);
std::optional<Advice> advise_fit_range(const AdviceContext& context);
std::optional<Advice> advise_fp8_scaling(const AdviceContext& context);
std::optional<Advice> advise_master_weights(const AdviceContext& context);
std::optional<Advice> advise_optimizer_state(const AdviceContext& context);
std::optional<Advice> advise_raise_scale(const AdviceContext& context);
std::optional<Advice> advise_tame_gradient(const AdviceContext& context);
std::optional<Advice> advise_trace_activation(const AdviceContext& context);
std::optional<Advice> advise_untrained_tensor(const AdviceContext& context);

}  // namespace scalewatch::domain
