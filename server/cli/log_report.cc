#include "server/cli/log_report.h"

#include <algorithm>
#include <string>

#include "server/names/escape.h"

namespace scalewatch::cli {
namespace {

constexpr std::size_t kMaxNameBytes = 256;

// Of a log's own words: valid UTF-8 without control characters.
std::string words(const std::string& text, std::size_t most = 1024) {
  std::string safe = names::escape(text);
  if (safe.size() <= most) return safe;
  std::size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(safe[end]) & 0xC0U) == 0x80U) --end;
  safe.resize(end);
  return safe;
}

void add_tensors(const domain::AttemptDigest& digest, v1::FromLog& log) {
  if (!digest.table) return;
  for (const domain::NonFiniteTensor& bad : digest.non_finite) {
    if (bad.id >= digest.table->size()) continue;
    const domain::TensorInfo& info = (*digest.table)[bad.id];
    v1::LogTensor& to = *log.add_tensors();
    to.set_name(words(info.name, 512));
    to.set_role(static_cast<v1::Role>(info.role));
    to.set_forward_index(info.forward_index);
    to.set_nan(bad.nan > 0);
    to.set_inf(bad.pos_inf + bad.neg_inf > 0);
  }
  for (const domain::TensorFaults& faults : digest.tensor_faults) {
    if (faults.rule != domain::TensorRule::kLowHeadroom) continue;
    for (const domain::FaultyTensor& tensor : faults.worst) {
      v1::LogTensor& to = *log.add_tensors();
      to.set_name(words(tensor.name, 512));
      to.set_role(static_cast<v1::Role>(tensor.role));
      to.set_octaves_beyond(tensor.value);
    }
  }
}

void add_difference(const domain::RankDifference& difference, v1::FromLog& log) {
  v1::LogDifference& to = *log.add_differences();
  to.set_what(difference.what);
  to.set_tensor(words(difference.tensor, 512));
  if (difference.first) to.set_first(*difference.first);
  if (difference.other) to.set_other(*difference.other);
  if (difference.first_value) to.set_first_value(*difference.first_value);
  if (difference.other_value) to.set_other_value(*difference.other_value);
  to.set_detail(words(difference.detail));
}

void add_scaler(const domain::ScalerObservation& seen, v1::Report& report) {
  v1::ScalerObservation& to = *report.add_scalers();
  to.set_scaler(seen.scaler);
  if (seen.scale_before) to.set_scale_before(*seen.scale_before);
  if (seen.scale_after) to.set_scale_after(*seen.scale_after);
  if (seen.growth_tracker) to.set_growth_tracker(*seen.growth_tracker);
  if (seen.hysteresis) to.set_hysteresis(*seen.hysteresis);
  for (const domain::OptimizerObservation& optimizer : seen.optimizers) {
    v1::OptimizerObservation& one = *to.add_optimizers();
    one.set_optimizer(optimizer.optimizer);
    if (optimizer.found_inf_decided) one.set_found_inf_decided(*optimizer.found_inf_decided);
    if (optimizer.outcome == domain::Outcome::kApplied) one.set_outcome(v1::OUTCOME_APPLIED);
    if (optimizer.outcome == domain::Outcome::kSkipped) one.set_outcome(v1::OUTCOME_SKIPPED);
  }
}

}  // namespace

v1::ScalerInfo to_proto(const domain::ScalerInfo& scaler) {
  v1::ScalerInfo out;
  out.set_name(scaler.name.empty() ? "default" : words(scaler.name, kMaxNameBytes));
  out.set_policy(scaler.policy);
  for (const auto& [name, value] : scaler.parameters) (*out.mutable_parameters())[name] = value;
  return out;
}

v1::Report to_report(const domain::AttemptDigest& digest) {
  v1::Report report;
  report.set_attempt(digest.attempt);
  report.set_step(digest.step);
  report.set_time_ms(digest.now);
  if (digest.loss) report.set_loss(*digest.loss);
  if (digest.lr) report.set_lr(*digest.lr);
  if (digest.grad_norm) report.set_grad_norm(*digest.grad_norm);
  report.set_phase(static_cast<v1::Phase>(digest.phase));
  if (digest.input_non_finite) report.set_input_non_finite(*digest.input_non_finite);
  for (const domain::MisuseObservation& misuse : digest.misuse) {
    v1::Misuse& to = *report.add_misuse();
    to.set_kind(misuse.kind);
    to.set_detail(words(misuse.detail));
    to.set_raised(misuse.raised);
  }
  v1::FromLog& log = *report.mutable_from_log();
  for (const domain::ScalerInfo& scaler : digest.declared) *log.add_scalers() = to_proto(scaler);
  for (const domain::ScalerObservation& seen : digest.scalers) {
    add_scaler(seen, report);
    log.set_applied_before(std::max<std::uint64_t>(log.applied_before(), seen.applied_before));
    if (seen.fatal.empty()) continue;
    log.set_fatal(words(seen.fatal));
    log.set_fatal_scaler(seen.scaler);
  }
  if (digest.accuracy) log.set_accuracy(*digest.accuracy);
  log.set_outcome_counted(digest.outcome_counted);
  for (const domain::RankDifference& difference : digest.rank_differences) add_difference(difference, log);
  add_tensors(digest, log);
  return report;
}

}  // namespace scalewatch::cli
