#include "server/metrics/run_metrics.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

namespace scalewatch::metrics {
namespace {

using engine::RunReadings;
using engine::RunShown;

// The runs to show: worst first, then newest; at most options.max_runs. Counts those left out by the bound.
std::vector<RunShown> choose(const std::vector<RunShown>& all, const Options& options, std::int64_t now_ms,
                             std::size_t& left_out) {
  std::vector<RunShown> runs;
  std::copy_if(all.begin(), all.end(), std::back_inserter(runs),
               [&](const RunShown& shown) { return shown.overview && on_page(shown.overview->run(), options, now_ms); });
  left_out = runs.size() > options.max_runs ? runs.size() - options.max_runs : 0;
  if (left_out > 0) {
    const auto rank = [](const RunShown& shown) {
      const v1::RunSummary& run = shown.overview->run();
      return std::tuple(-static_cast<int>(run.worst_open()), -last_sign_of_life_ms(run), std::string_view(run.run_uid()));
    };
    std::partial_sort(runs.begin(), runs.begin() + static_cast<std::ptrdiff_t>(options.max_runs), runs.end(),
                      [&](const RunShown& a, const RunShown& b) { return rank(a) < rank(b); });
    runs.resize(options.max_runs);
  }
  return runs;
}

const char* dtype_name(v1::DType dtype) {
  switch (dtype) {
    case v1::DTYPE_FP64:
      return "fp64";
    case v1::DTYPE_FP32:
      return "fp32";
    case v1::DTYPE_FP16:
      return "fp16";
    case v1::DTYPE_BF16:
      return "bf16";
    case v1::DTYPE_E4M3FN:
      return "e4m3fn";
    case v1::DTYPE_E5M2:
      return "e5m2";
    default:
      return "unknown";
  }
}

// By Role.
constexpr std::array<std::string_view, engine::kRoles> kRoleNames = {
    "unknown", "gradient", "parameter", "activation", "activation_gradient", "optimizer_state", "buffer"};
// By SkipReason.
constexpr std::array<std::string_view, domain::kSkipReasons> kReasonNames = {
    "parameter", "input", "loss", "activation", "activation_gradient", "gradient", "unknown"};

constexpr std::array<std::pair<v1::Severity, const char*>, 3> kSeverities = {{
    {v1::SEVERITY_INFO, "info"},
    {v1::SEVERITY_WARNING, "warning"},
    {v1::SEVERITY_CRITICAL, "critical"},
}};
constexpr std::array<std::pair<v1::RunStatus, const char*>, 3> kStatuses = {{
    {v1::RUN_STATUS_RUNNING, "running"},
    {v1::RUN_STATUS_FINISHED, "finished"},
    {v1::RUN_STATUS_LOST, "lost"},
}};

// Labels of the user's as Prometheus allows them; of two that become one, the first stays.
std::vector<std::pair<std::string, std::string>> user_labels(const v1::RunSummary& run) {
  std::map<std::string, std::string> out;
  const std::map<std::string, std::string> sorted(run.labels().begin(), run.labels().end());
  for (const auto& [name, value] : sorted) {
    std::string allowed = name;
    for (char& c : allowed) {
      const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
      if (!letter) c = '_';
    }
    out.try_emplace(std::move(allowed), value);
  }
  return {out.begin(), out.end()};
}

// One run on its way to the page.
class OneRun {
 public:
  OneRun(Page& page, const v1::GetRunResponse& overview, const RunReadings* readings)
      : page_(page), overview_(overview), run_(overview.run()), readings_(readings), name_(run_.name()) {}

  // Returns how many scalers were left out.
  std::size_t add(std::size_t max_scalers) {
    const std::string policy = overview_.scalers_size() > 0 ? overview_.scalers(0).policy() : "none";
    page_.add(
        Id::kRunInfo,
        {name_, run_.run_uid(), run_.framework(), dtype_name(run_.compute_dtype()), std::to_string(run_.world_size()), policy},
        1);
    if (run_.labels_size() > 0) page_.add(Id::kRunLabels, {name_}, user_labels(run_), 1);
    for (const auto& [status, label] : kStatuses) page_.add(Id::kRunStatus, {name_, label}, run_.status() == status ? 1 : 0);
    put(Id::kRunSegment, run_.segment());
    put(Id::kLastReport, static_cast<double>(run_.last_report_ms()) / 1000);
    put(Id::kLastStep, static_cast<double>(run_.last_step()));
    page_.add(Id::kAttempts, {name_, "applied"}, static_cast<double>(run_.applied()));
    page_.add(Id::kAttempts, {name_, "skipped"}, static_cast<double>(run_.skipped()));
    page_.add(Id::kAttempts, {name_, "partial"}, static_cast<double>(run_.partial()));
    if (run_.has_loss()) put(Id::kLoss, run_.loss());
    put(Id::kReportsLost, static_cast<double>(run_.lost_reports()));
    add_ranks();
    add_findings();
    if (readings_ != nullptr) add_readings();
    return add_scalers(max_scalers);
  }

 private:
  void put(Id id, double value) { page_.add(id, {name_}, value); }

  // Sums over ranks: causes are few by name, ranks are not. Causes that the run never had are left out.
  void add_ranks() {
    std::map<std::string_view, std::pair<std::uint64_t, std::uint64_t>> losses;
    v1::RankSummary sum;
    std::uint32_t finished = 0;
    for (const v1::RankSummary& rank : overview_.ranks()) {
      for (const v1::LossSummary& loss : rank.losses()) {
        losses[loss.cause()].first += loss.reports();
        losses[loss.cause()].second += loss.thinned();
      }
      sum.set_trainer_thread_ns(sum.trainer_thread_ns() + rank.trainer_thread_ns());
      sum.set_measure_ns(sum.measure_ns() + rank.measure_ns());
      sum.set_client_thread_ns(sum.client_thread_ns() + rank.client_thread_ns());
      sum.set_gpu_ns(sum.gpu_ns() + rank.gpu_ns());
      sum.set_cuda_driver_calls(sum.cuda_driver_calls() + rank.cuda_driver_calls());
      sum.set_buffered_bytes(sum.buffered_bytes() + rank.buffered_bytes());
      sum.set_spooled_bytes(sum.spooled_bytes() + rank.spooled_bytes());
      finished += rank.said_goodbye() ? 1 : 0;
    }
    put(Id::kRanks, run_.world_size());
    put(Id::kRanksConnected, run_.ranks_connected());
    put(Id::kRanksFinished, finished);
    for (const auto& [cause, counts] : losses) {
      page_.add(Id::kLostByCause, {name_, cause}, static_cast<double>(counts.first));
      page_.add(Id::kThinnedByCause, {name_, cause}, static_cast<double>(counts.second));
    }
    put(Id::kTrainerSeconds, static_cast<double>(sum.trainer_thread_ns()) * 1e-9);
    put(Id::kMeasureSeconds, static_cast<double>(sum.measure_ns()) * 1e-9);
    put(Id::kClientSeconds, static_cast<double>(sum.client_thread_ns()) * 1e-9);
    put(Id::kGpuSeconds, static_cast<double>(sum.gpu_ns()) * 1e-9);
    put(Id::kDriverCalls, static_cast<double>(sum.cuda_driver_calls()));
    put(Id::kBuffered, static_cast<double>(sum.buffered_bytes()));
    put(Id::kSpooled, static_cast<double>(sum.spooled_bytes()));
  }

  void add_findings() {
    std::map<std::pair<v1::Severity, std::string_view>, std::uint64_t> by_rule;
    std::map<v1::Severity, std::uint64_t> by_severity;
    for (const v1::Finding& finding : overview_.findings()) {
      if (!finding.open()) continue;
      ++by_severity[finding.severity()];
      ++by_rule[{finding.severity(), finding.rule()}];
    }
    for (const auto& [severity, label] : kSeverities) {
      page_.add(Id::kFindings, {name_, label}, static_cast<double>(by_severity[severity]));
      for (const auto& [key, count] : by_rule) {
        if (key.first == severity) page_.add(Id::kRuleFindings, {name_, key.second, label}, static_cast<double>(count));
      }
    }
  }

  void add_readings() {
    const RunReadings& seen = *readings_;
    if (seen.gradient_norm) put(Id::kGradientNorm, *seen.gradient_norm);
    const domain::AttemptCounts& counts = seen.counts;
    put(Id::kNonFiniteApplied, static_cast<double>(counts.non_finite_applied));
    for (std::size_t i = 0; i < domain::kSkipReasons; ++i) {
      page_.add(Id::kSkips, {name_, kReasonNames.at(i)}, static_cast<double>(counts.skips.at(i)));
    }
    page_.add(Id::kNonFiniteAttempts, {name_, "loss"}, static_cast<double>(counts.non_finite_losses));
    for (std::size_t i = 1; i < engine::kRoles; ++i) {
      const engine::RoleReading& role = seen.roles.at(i);
      const std::string_view label = kRoleNames.at(i);
      if (role.headroom) page_.add(Id::kHeadroom, {name_, label}, *role.headroom);
      if (role.non_zero > 0) page_.add(Id::kUnderflow, {name_, label}, role.under / role.non_zero);
      if (role.worst_under) page_.add(Id::kWorstUnderflow, {name_, label}, *role.worst_under);
      // From the first look on, so that the first non-finite value is an increase. Gradients, always.
      const bool known = role.headroom || role.non_zero > 0 || counts.non_finite_attempts.at(i) > 0 ||
                         i == static_cast<std::size_t>(Role::kGradient);
      if (!known) continue;
      page_.add(Id::kNonFiniteElements, {name_, label}, static_cast<double>(counts.non_finite_elements.at(i)));
      page_.add(Id::kNonFiniteAttempts, {name_, label}, static_cast<double>(counts.non_finite_attempts.at(i)));
    }
    for (const engine::TensorReading& tensor : seen.tensors) {
      page_.add(Id::kTensorHeadroom, {name_, tensor.name, kRoleNames.at(static_cast<std::size_t>(tensor.role))},
                tensor.headroom);
    }
  }

  std::size_t add_scalers(std::size_t max_scalers) {
    const auto all = static_cast<std::size_t>(overview_.scalers_size());
    const std::size_t shown = std::min(all, max_scalers);
    std::set<std::string> used;
    for (std::size_t i = 0; i < shown; ++i) {
      const v1::ScalerSummary& scaler = overview_.scalers(static_cast<int>(i));
      // One series twice would make Prometheus refuse the whole page, so a second scaler of a name gets its number.
      std::string label = scaler.name().empty() ? std::to_string(scaler.scaler()) : scaler.name();
      while (!used.insert(label).second) label += "#" + std::to_string(i);
      const auto put_one = [&](Id id, double value) { page_.add(id, {name_, label}, value); };
      if (scaler.has_scale()) put_one(Id::kScale, scaler.scale());
      if (scaler.has_growth_tracker()) put_one(Id::kGrowthTracker, static_cast<double>(scaler.growth_tracker()));
      if (readings_ != nullptr && i < readings_->scalers.size()) {
        const RunReadings::Scaler& more = readings_->scalers[i];
        if (more.floor) put_one(Id::kScaleFloor, *more.floor);
        if (more.hysteresis) put_one(Id::kHysteresis, *more.hysteresis);
      }
      put_one(Id::kConsecutiveSkips, static_cast<double>(scaler.consecutive_skips()));
      put_one(Id::kSkipRatio, scaler.skip_ratio());
      put_one(Id::kCalibrating, scaler.calibrating() ? 1 : 0);
      page_.add(Id::kScalerAttempts, {name_, label, "applied"}, static_cast<double>(scaler.applied()));
      page_.add(Id::kScalerAttempts, {name_, label, "skipped"}, static_cast<double>(scaler.skipped()));
      put_one(Id::kGrowths, static_cast<double>(scaler.growths()));
    }
    return all - shown;
  }

  Page& page_;
  const v1::GetRunResponse& overview_;
  const v1::RunSummary& run_;
  const RunReadings* readings_;
  std::string_view name_;
};

}  // namespace

std::int64_t last_sign_of_life_ms(const v1::RunSummary& run) {
  return std::max(run.last_report_ms(), run.created_ms());
}

bool on_page(const v1::RunSummary& run, const Options& options, std::int64_t now_ms) {
  if (run.status() == v1::RUN_STATUS_RUNNING) return true;
  return now_ms - last_sign_of_life_ms(run) <= options.finished_for.count();
}

void add_run_metrics(const std::vector<RunShown>& shown, const StoreSample& store, const Options& options, std::int64_t now_ms,
                     Page& page) {
  std::size_t runs_left_out = 0;
  std::size_t scalers_left_out = 0;
  const std::vector<RunShown> runs = choose(shown, options, now_ms, runs_left_out);
  for (const RunShown& run : runs) {
    scalers_left_out += OneRun(page, *run.overview, run.readings.get()).add(options.max_scalers_per_run);
    const auto stored = store.run_bytes.find(run.overview->run().name());
    if (stored != store.run_bytes.end()) page.add(Id::kRunHistory, {stored->first}, static_cast<double>(stored->second));
  }
  page.add(Id::kRuns, {}, static_cast<double>(runs.size()));
  page.add(Id::kRunsLeftOut, {}, static_cast<double>(runs_left_out));
  page.add(Id::kScalersLeftOut, {}, static_cast<double>(scalers_left_out));
}

}  // namespace scalewatch::metrics
