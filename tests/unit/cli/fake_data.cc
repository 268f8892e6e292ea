#include "tests/unit/cli/fake_data.h"

#include <cmath>
#include <limits>

namespace scalewatch::cli {

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

v1::RunSummary collapsing() {
  v1::RunSummary run;
  run.set_run_uid("r-01");
  run.set_name("digits-hot");
  run.set_segment(2);
  run.set_status(v1::RUN_STATUS_RUNNING);
  run.set_created_ms(kNow - 3'600'000);
  run.set_last_report_ms(kNow - 12'000);
  run.set_world_size(4);
  run.set_ranks_connected(3);
  run.set_attempts(60);
  run.set_applied(44);
  run.set_skipped(15);
  run.set_partial(1);
  run.set_last_step(59);
  run.set_scale(4);
  run.set_loss(kNan);
  run.set_worst_open(v1::SEVERITY_CRITICAL);
  run.set_open_findings(1);
  run.set_framework("scalewatch demo");
  run.set_compute_dtype(v1::DTYPE_FP16);
  run.set_lost_reports(3);
  return run;
}

v1::RunSummary healthy() {
  v1::RunSummary run;
  run.set_run_uid("r-02");
  run.set_name("a-rather-long-name-of-a-run-that-does-not-fit/重み-seed-3");
  run.set_segment(1);
  run.set_status(v1::RUN_STATUS_FINISHED);
  run.set_last_report_ms(kNow - 7'200'000);
  run.set_world_size(1);
  run.set_attempts(123'456);
  run.set_applied(123'444);
  run.set_skipped(12);
  run.set_scale(65536);
  run.set_loss(0.0512);
  return run;
}

v1::Finding critical() {
  v1::Finding finding;
  finding.set_id("r-01/NonFiniteApplied//2/58");
  finding.set_rule("NonFiniteApplied");
  finding.set_severity(v1::SEVERITY_CRITICAL);
  finding.set_segment(2);
  finding.set_first_attempt(58);
  finding.set_last_attempt(60);
  finding.set_first_step(57);
  finding.set_last_step(59);
  finding.add_ranks(0);
  finding.set_summary("3 attempts with non-finite gradients were applied: the weights take what the gradients held");
  auto* evidence = finding.add_evidence();
  evidence->set_name("non_finite_elements");
  evidence->set_value(16);
  evidence = finding.add_evidence();
  evidence->set_name("applied");
  evidence->set_value(3);
  evidence->set_unit("attempts");
  evidence->set_limit(0);
  auto* blame = finding.mutable_blame();
  blame->set_tensor("encoder.layers.3.attention.query_key_value.weight");
  blame->set_role(v1::ROLE_GRADIENT);
  blame->set_kind("both");
  blame->set_where("backward");
  blame->set_rank_of_origin(1);
  for (const unsigned rank : {0U, 1U, 2U, 5U}) blame->add_ranks(rank);
  blame->set_nan(4);
  blame->set_inf(1200);
  blame->set_tensors_non_finite(3);
  blame->set_fastest_falling("encoder.layers.2.mlp.weight");
  blame->set_octaves_fallen(5.25);
  blame->set_note("Activations were not collected: collect them to know whether the forward pass was clean.");
  auto* advice = finding.add_advice();
  advice->set_id("step_through_scaler");
  advice->set_text("Call scaler.step(optimizer) in place of optimizer.step(), so that such attempts are skipped.");
  advice->set_confidence(0.9);
  advice = finding.add_advice();
  advice->set_id("lower_lr");
  advice->set_text("Try a learning rate of 0.05 (half of the present one).");
  advice->set_confidence(0.4);
  finding.set_open(true);
  return finding;
}

v1::Finding resolved_warning() {
  v1::Finding finding;
  finding.set_id("r-01/FrequentSkippedSteps/scaler 0/2/44");
  finding.set_rule("FrequentSkippedSteps");
  finding.set_severity(v1::SEVERITY_WARNING);
  finding.set_subject("scaler 0");
  finding.set_segment(2);
  finding.set_first_attempt(44);
  finding.set_last_attempt(44);
  finding.set_first_step(43);
  finding.set_last_step(43);
  finding.set_summary("15 of 57 attempts were skipped, 13 more than the scale's growth explains (limit 5)");
  return finding;
}

// Belongs to the segment before: it must not make the newest one look bad.
v1::Finding old_critical() {
  v1::Finding finding;
  finding.set_id("r-01/NeverApplied//1/30");
  finding.set_rule("NeverApplied");
  finding.set_severity(v1::SEVERITY_CRITICAL);
  finding.set_segment(1);
  finding.set_first_attempt(30);
  finding.set_last_attempt(30);
  finding.set_first_step(1);
  finding.set_last_step(1);
  finding.set_summary("Nothing was applied in 30 attempts");
  return finding;
}

v1::Record record(float absmax, double headroom, std::uint64_t nan, std::uint64_t inf) {
  v1::Record out;
  out.set_numel(4096);
  out.set_nan(nan);
  out.set_pos_inf(inf);
  out.set_zero(96);
  if (absmax >= 0) {
    out.set_absmax(absmax);
    out.set_max(absmax);
    out.set_min(-absmax / 2);
    out.set_headroom(headroom);
  }
  out.set_sum_sq(400.0 * static_cast<double>(absmax));
  out.set_subnormal(500);
  out.set_measured_under_scale(65536);
  out.set_target(v1::DTYPE_FP16);
  out.set_micro_batches(1);
  return out;
}

void add_tensors(FakeData& data) {
  struct Row {
    const char* name;
    v1::Role role;
    float absmax;
    double headroom;
    std::uint64_t nan;
  };
  const Row rows[] = {{"encoder.layers.0.attention.query_key_value.weight", v1::ROLE_PARAMETER, 0.75F, 16.4, 0},
                      {"encoder.layers.3.attention.query_key_value.weight", v1::ROLE_GRADIENT, 60000.0F, 0.1, 4},
                      {"head", v1::ROLE_ACTIVATION_GRADIENT, 1e-7F, 39.3, 0}};
  for (const auto& row : rows) {
    auto& tensor = *data.tensors.add_tensors();
    tensor.mutable_info()->set_name(row.name);
    tensor.mutable_info()->set_role(row.role);
    tensor.mutable_info()->set_dtype(v1::DTYPE_FP16);
    tensor.mutable_info()->set_numel(4096);
    tensor.set_last_attempt(60);
    *tensor.mutable_last() = record(row.absmax, row.headroom, row.nan, row.nan * 300);
    auto& top = *data.top.add_tensors();
    *top.mutable_info() = tensor.info();
    top.set_value(row.headroom);
    top.set_attempt(58);
    *top.mutable_worst() = tensor.last();
  }
  auto& silent = *data.tensors.add_tensors()->mutable_info();
  silent.set_name("never.seen");
  silent.set_role(v1::ROLE_BUFFER);
  silent.set_dtype(v1::DTYPE_BF16);
  silent.set_numel(5'000'000);
  data.top.mutable_range()->set_segment(2);
  data.top.mutable_range()->set_first(1);
  data.top.mutable_range()->set_last(60);

  *data.history.mutable_info() = data.tensors.tensors(1).info();
  for (std::uint64_t i = 0; i < 5; ++i) {
    auto& point = *data.history.add_points();
    point.set_first_attempt(1 + 12 * i);
    point.set_last_attempt(12 + 12 * i);
    point.set_attempts(12);
    const bool bad = i == 3;
    *point.mutable_record() =
        record(std::ldexp(4.0F, static_cast<int>(i) * 3), 14 - 3.0 * static_cast<double>(i), bad ? 4 : 0, bad ? 9 : 0);
    point.set_min_headroom(13.5 - 3.0 * static_cast<double>(i));
  }
  // Nothing finite is left at the end.
  *data.history.mutable_points(4)->mutable_record() = record(-1, 0, 0, 4096);
  data.history.mutable_points(4)->mutable_record()->set_sum_sq(0);
  data.history.mutable_points(4)->clear_min_headroom();
}

void add_scaler(FakeData& data) {
  auto& scaler = *data.scaler.mutable_scaler();
  scaler.set_name("scaler");
  scaler.set_policy("pytorch");
  (*scaler.mutable_parameters())["init_scale"] = 65536;
  (*scaler.mutable_parameters())["growth_interval"] = 2000;
  scaler.set_scale(4);
  scaler.set_growth_tracker(1);
  scaler.set_applied(44);
  scaler.set_skipped(15);
  scaler.set_growths(1);
  scaler.set_skip_ratio(0.25);
  *data.run.add_scalers() = scaler;
  double scale = 65536;
  std::uint64_t tracker = 0;
  for (std::uint64_t attempt = 1; attempt <= 60; ++attempt) {
    auto& point = *data.scaler.add_points();
    const bool skipped = attempt <= 2 || (attempt >= 40 && attempt < 58 && attempt % 4 != 0);
    const bool partial = attempt == 2;
    const bool grown = attempt == 20;
    point.set_first_attempt(attempt);
    point.set_last_attempt(attempt);
    point.set_last_step(static_cast<std::int64_t>(attempt) - 1);
    point.set_scale_before(scale);
    if (skipped) scale /= 2;
    if (grown) scale *= 2;
    tracker = skipped || grown ? 0 : tracker + 1;
    point.set_scale_after(scale);
    point.set_growth_tracker(tracker);
    point.set_applied(skipped ? 0 : 1);
    point.set_skipped(skipped && !partial ? 1 : 0);
    point.set_partial(partial ? 1 : 0);
    if (attempt < 58) {
      point.set_loss(3.0 / std::sqrt(static_cast<double>(attempt)));
    } else {
      point.set_loss(kNan);
      point.set_non_finite_losses(1);
    }
  }
}

void add_ranks(FakeData& data) {
  for (unsigned i = 0; i < 4; ++i) {
    auto& rank = *data.run.add_ranks();
    rank.set_rank(i);
    rank.set_host("node-" + std::to_string(i / 2));
    rank.set_pid(4000 + i);
    rank.set_connected(i != 3);
    rank.set_last_attempt(i == 3 ? 41 : 60);
    rank.set_last_seen_ms(kNow - (i == 3 ? 95'000 : 12'000));
    rank.set_lost_reports(i == 2 ? 3 : 0);
  }
}

void add_alerts(FakeData& data) {
  auto& firing = *data.alerts.add_alerts();
  firing.set_id(critical().id());
  firing.set_run_uid("r-01");
  firing.set_run("digits-hot");
  firing.set_state(v1::ALERT_STATE_FIRING);
  *firing.mutable_finding() = critical();
  firing.set_fired_ms(kNow - 40'000);
  auto& delivery = *firing.add_deliveries();
  delivery.set_sink("webhook");
  delivery.set_transition("firing");
  delivery.set_tries(4);
  delivery.set_last_error("connection refused");
  auto& resolved = *data.alerts.add_alerts();
  resolved.set_id(resolved_warning().id());
  resolved.set_run("digits-hot");
  resolved.set_state(v1::ALERT_STATE_RESOLVED);
  *resolved.mutable_finding() = resolved_warning();
  resolved.set_fired_ms(kNow - 600'000);
  resolved.set_resolved_ms(kNow - 300'000);
}

void add_tail(FakeData& data) {
  auto& attempt = *data.tail[0].mutable_attempt();
  attempt.set_segment(2);
  attempt.set_attempt(61);
  attempt.set_step(60);
  attempt.set_loss(2.5);
  attempt.set_lr(0.1);
  attempt.set_grad_norm(31.5);
  auto& scaler = *attempt.add_scalers();
  scaler.set_skipped(1);
  scaler.set_scale_before(4);
  scaler.set_scale_after(2);
  *data.tail[1].mutable_finding() = critical();
  data.tail[2].set_dropped(12);
}

}  // namespace

FakeData collapsing_run() {
  FakeData data;
  *data.runs.add_runs() = collapsing();
  *data.runs.add_runs() = healthy();
  *data.run.mutable_run() = collapsing();
  *data.run.add_findings() = critical();
  *data.run.add_findings() = resolved_warning();
  *data.run.add_findings() = old_critical();
  add_ranks(data);
  add_scaler(data);
  add_tensors(data);
  add_alerts(data);
  add_tail(data);
  add_attempts(data);
  return data;
}

}  // namespace scalewatch::cli
