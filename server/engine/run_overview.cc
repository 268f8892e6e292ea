// What lists, metrics and GetRun show of a run.
#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "server/domain/policy.h"
#include "server/domain/saturate.h"
#include "server/domain/text.h"
#include "server/engine/finding_codec.h"
#include "server/engine/run.h"
#include "server/engine/text.h"

namespace scalewatch::engine {

namespace {

constexpr std::int64_t kOverviewEveryMs = 50;
constexpr std::int64_t kReadingsEveryMs = 250;  // nobody scrapes more often

void fill(const domain::ScalerView& from, std::uint32_t index, v1::ScalerSummary& to) {
  to.set_scaler(index);
  to.set_name(from.info.name);
  to.set_policy(from.info.policy);
  to.mutable_parameters()->insert(from.info.parameters.begin(), from.info.parameters.end());
  if (from.scale) to.set_scale(*from.scale);
  if (from.growth_tracker) to.set_growth_tracker(*from.growth_tracker);
  to.set_applied(from.applied);
  to.set_skipped(from.skipped);
  to.set_growths(from.growths);
  to.set_consecutive_skips(from.consecutive_skips);
  to.set_calibrating(from.calibrating);
  to.set_skip_ratio(from.skip_ratio);
}

void fill(const v1::ClientStats& from, v1::RankSummary& to) {
  to.set_reports_dropped(from.reports_dropped());
  to.set_trainer_thread_ns(from.trainer_thread_ns());
  to.set_measure_ns(from.measure_ns());
  to.set_client_thread_ns(from.client_thread_ns());
  to.set_buffered_bytes(from.buffered_bytes());
  to.set_spooled_bytes(from.spooled_bytes());
  to.set_misuse_dropped(from.misuse_dropped());
  to.set_cuda_driver_calls(from.cuda_driver_calls());
  to.set_gpu_ns(from.gpu_ns());
  for (const v1::DeviceFault& fault : from.device_faults()) {
    *to.add_device_faults() = "GPU " + std::to_string(fault.device()) + ": " + clipped(fault.detail(), 200);
  }
}

void fill(const std::vector<domain::LossView>& from, v1::RankSummary& to) {
  for (const domain::LossView& loss : from) {
    v1::LossSummary& each = *to.add_losses();
    each.set_cause(std::string(domain::loss_cause_name(loss.cause)));
    each.set_reports(loss.reports);
    each.set_first_seq(loss.first_seq);
    each.set_last_seq(loss.last_seq);
    each.set_thinned(loss.thinned);
    each.set_first_attempt(loss.first_attempt);
    each.set_last_attempt(loss.last_attempt);
    to.set_lost_reports(domain::saturating_add(to.lost_reports(), loss.reports));
    to.set_thinned_reports(to.thinned_reports() + loss.thinned);
  }
}

void merge(const RoleReading& from, RoleReading& to) {
  if (from.headroom) to.headroom = std::min(to.headroom.value_or(*from.headroom), *from.headroom);
  if (from.worst_under) to.worst_under = std::max(to.worst_under.value_or(0), *from.worst_under);
  to.non_zero += from.non_zero;
  to.under += from.under;
}

}  // namespace

v1::RunStatus Run::status() const {
  bool any_here = false;
  bool all_left = true;
  const std::int64_t now = services_.clock.steady_ms();
  for (const auto& [rank, slot] : slots_) {
    if (slot->segment != segment_ || slot->left) continue;
    any_here = any_here || is_here(*slot, now) || !slot->reported_silent;
    all_left = false;
  }
  if (any_here) return v1::RUN_STATUS_RUNNING;
  return all_left ? v1::RUN_STATUS_FINISHED : v1::RUN_STATUS_LOST;
}

// A stream that falls silent brings nothing that would ask for a new overview.
void Run::note_who_is_here() {
  const std::int64_t now = services_.clock.steady_ms();
  for (const auto& [rank, slot] : slots_) {
    const bool here = is_here(*slot, now);
    if (std::exchange(slot->shown_here, here) != here) overview_dirty_ = true;
  }
}

v1::GetRunResponse Run::make_overview() const {
  const domain::RunView view = state_.view();
  const std::int64_t steady = services_.clock.steady_ms();
  const std::int64_t wall = services_.clock.wall_ms();
  v1::GetRunResponse out;
  v1::RunSummary& run = *out.mutable_run();
  run.set_run_uid(context_.run_uid);
  run.set_name(context_.name);
  run.set_instance(instance_);
  run.set_segment(segment_);
  run.set_status(status());
  run.set_created_ms(created_ms_);
  run.set_last_report_ms(last_report_ms_);
  run.set_world_size(view.world_size);
  run.set_attempts(view.attempts);
  run.set_applied(view.applied);
  run.set_skipped(view.skipped);
  run.set_partial(view.partial);
  run.set_last_step(view.last_step);
  if (!view.scalers.empty() && view.scalers.front().scale) run.set_scale(*view.scalers.front().scale);
  if (view.loss) run.set_loss(*view.loss);
  run.set_worst_open(view.open.empty() ? v1::SEVERITY_UNSPECIFIED : static_cast<v1::Severity>(view.open.front().severity));
  run.set_worst(static_cast<v1::Severity>(worst_));
  run.set_open_findings(static_cast<std::uint32_t>(view.open.size()));
  run.mutable_labels()->insert(context_.labels.begin(), context_.labels.end());
  run.set_framework(view.framework);
  run.set_compute_dtype(static_cast<v1::DType>(view.compute_dtype));
  std::map<domain::Rank, const domain::RankView*> seen;
  for (const domain::RankView& rank : view.ranks) seen[rank.rank] = &rank;
  std::uint32_t connected = 0;
  for (const auto& [rank, slot] : slots_) {
    if (slot->segment != segment_) continue;
    v1::RankSummary& to = *out.add_ranks();
    to.set_rank(rank);
    to.set_host(slot->hello.host());
    to.set_pid(slot->hello.pid());
    to.set_gpu_uuid(slot->hello.gpu_uuid());
    const bool here = is_here(*slot, steady) && !slot->left;
    to.set_connected(here);
    to.set_said_goodbye(slot->left);
    to.set_last_attempt(slot->newest_attempt);
    to.set_last_seen_ms(wall - silence_of(*slot, steady));
    to.set_durable_seq(slot->handled_seq);
    fill(slot->client, to);
    if (const auto found = seen.find(rank); found != seen.end()) fill(found->second->losses, to);
    run.set_lost_reports(domain::saturating_add(run.lost_reports(), to.lost_reports()));
    run.set_thinned_reports(run.thinned_reports() + to.thinned_reports());
    connected += here ? 1 : 0;
  }
  run.set_ranks_connected(connected);
  for (std::uint32_t i = 0; i < view.scalers.size(); ++i) fill(view.scalers[i], i, *out.add_scalers());
  for (const auto& finding : view.open) *out.add_findings() = to_proto(context_.run_uid, finding);
  for (const auto& segment : segments_) *out.add_segments() = segment;
  if (!segments_.empty()) out.mutable_segments(out.segments_size() - 1)->set_attempts(view.attempts);
  return out;
}

RunReadings Run::make_readings() const {
  const domain::RunView view = state_.view();
  RunReadings out;
  for (const domain::ScalerView& scaler : view.scalers) {
    const auto policy = domain::make_policy(scaler.info.policy, scaler.info.parameters);
    out.scalers.push_back({scaler.hysteresis, policy ? policy->floor() : std::nullopt});
  }
  out.gradient_norm = view.grad_norm;
  out.counts = view.counts;
  // Over ranks that hold the same tensor, the worst.
  std::map<std::pair<Role, std::string_view>, double> tensors;
  const auto take = [&](const RankReading& reading) {
    for (std::size_t i = 0; i < kRoles; ++i) merge(reading.roles.at(i), out.roles.at(i));
    for (const TensorReading& tensor : reading.tensors) {
      const auto [it, fresh] = tensors.try_emplace({tensor.role, tensor.name}, tensor.headroom);
      if (!fresh) it->second = std::min(it->second, tensor.headroom);
    }
  };
  bool any = false;
  for (const auto& [rank, slot] : slots_) {
    if (slot->segment != segment_ || !slot->reading) continue;
    any = true;
    take(*slot->reading);
  }
  if (!any && restored_) take(*restored_);
  for (const auto& [key, headroom] : tensors) out.tensors.push_back({std::string(key.second), key.first, headroom});
  std::stable_sort(out.tensors.begin(), out.tensors.end(),
                   [](const TensorReading& a, const TensorReading& b) { return a.headroom < b.headroom; });
  if (out.tensors.size() > services_.options.top_tensors) out.tensors.resize(services_.options.top_tensors);
  return out;
}

// At most every 50 ms: a list needs no more, and a run at full rate would pay for each report.
void Run::stage_overview(CommitBatch& batch) {
  const std::int64_t now = services_.clock.steady_ms();
  if (!overview_dirty_ || (overview_ms_ != 0 && now - overview_ms_ < kOverviewEveryMs)) return;
  overview_dirty_ = false;
  overview_ms_ = now;
  auto overview = std::make_shared<v1::GetRunResponse>(make_overview());
  RunRow row{context_.run_uid,
             context_.name,
             created_ms_,
             last_report_ms_,
             segment_,
             overview->run().status(),
             overview->run().worst_open(),
             {}};
  v1::GetRunResponse stored = *overview;
  stored.clear_findings();  // the alerts' rows have them, resolved ones too
  row.overview = stored.SerializeAsString();
  batch.runs.push_back(std::move(row));
  std::lock_guard lock(overview_mutex_);
  overview_ = std::move(overview);
  readings_dirty_ = true;
}

void Run::publish_readings(bool now) {
  const std::int64_t steady = services_.clock.steady_ms();
  if (!now && (!readings_dirty_ || steady - readings_ms_ < kReadingsEveryMs)) return;
  readings_dirty_ = false;
  readings_ms_ = steady;
  auto readings = std::make_shared<const RunReadings>(make_readings());
  std::lock_guard lock(overview_mutex_);
  readings_ = std::move(readings);
}

}  // namespace scalewatch::engine
