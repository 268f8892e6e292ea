#include "server/metrics/run_metrics.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <tuple>

namespace scalewatch::metrics {
namespace {

std::int64_t last_sign_of_life_ms(const v1::RunSummary& run) {
  return std::max(run.last_report_ms(), run.created_ms());
}

bool on_page(const v1::RunSummary& run, const Options& options, std::int64_t now_ms) {
  if (run.status() == v1::RUN_STATUS_RUNNING) return true;
  return now_ms - last_sign_of_life_ms(run) <= options.finished_for.count();
}

// The runs to show: worst first, then newest; at most options.max_runs. Counts those left out by the bound.
Overviews choose(const Overviews& all, const Options& options, std::int64_t now_ms, std::size_t& left_out) {
  Overviews runs;
  std::copy_if(all.begin(), all.end(), std::back_inserter(runs),
               [&](const auto& overview) { return overview && on_page(overview->run(), options, now_ms); });
  left_out = runs.size() > options.max_runs ? runs.size() - options.max_runs : 0;
  if (left_out > 0) {
    const auto rank = [](const auto& overview) {
      const v1::RunSummary& run = overview->run();
      return std::tuple(-static_cast<int>(run.worst_open()), -last_sign_of_life_ms(run), run.run_uid());
    };
    std::partial_sort(runs.begin(), runs.begin() + static_cast<std::ptrdiff_t>(options.max_runs), runs.end(),
                      [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
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

constexpr std::array<std::pair<v1::Severity, const char*>, 3> kSeverities = {{
    {v1::SEVERITY_INFO, "info"},
    {v1::SEVERITY_WARNING, "warning"},
    {v1::SEVERITY_CRITICAL, "critical"},
}};

class RunFamilies {
 public:
  explicit RunFamilies(Families& families)
      : info_(families.gauge("scalewatch_run_info", "What a run is; always 1.")),
        last_report_(families.gauge("scalewatch_last_report_timestamp_seconds",
                                    "When the run's last report arrived, server's clock; 0 before the first.")),
        ranks_(families.gauge("scalewatch_ranks", "Ranks that the run has (its world size).")),
        connected_(families.gauge("scalewatch_ranks_connected", "Ranks of the run that are connected now.")),
        attempts_(families.counter("scalewatch_attempts_total",
                                   "Closed attempts of the run's newest segment, by outcome; starts again with a segment.")),
        loss_(families.gauge("scalewatch_loss", "Newest loss of the run; NaN and infinities are kept.")),
        lost_(families.counter("scalewatch_reports_lost_total",
                               "Reports of the run's newest segment that its clients announced as lost.")),
        lost_by_cause_(families.counter("scalewatch_run_lost_reports_total",
                                        "Reports of the run's newest segment that never come, by cause.")),
        thinned_(families.counter("scalewatch_run_thinned_reports_total",
                                  "Reports of the run's newest segment that came without their full statistics, by cause.")),
        trainer_seconds_(families.counter("scalewatch_client_trainer_thread_seconds_total",
                                          "Time that monitoring took on the trainers' threads, passes over host data excluded; "
                                          "all ranks, starts again with a client.")),
        measure_seconds_(families.counter("scalewatch_client_measure_seconds_total",
                                          "Time of passes over host data; all ranks, starts again with a client.")),
        client_seconds_(families.counter("scalewatch_client_thread_seconds_total",
                                         "Processor time of the clients' own threads; all ranks, starts again with a client.")),
        gpu_seconds_(families.counter("scalewatch_client_gpu_seconds_total",
                                      "GPU time of the clients' kernels; all ranks, starts again with a client.")),
        driver_calls_(
            families.counter("scalewatch_client_cuda_driver_calls_total",
                             "Calls of CUDA's driver that monitoring made on the trainers' threads; all ranks, starts "
                             "again with a client.")),
        buffered_(families.gauge("scalewatch_client_buffered_bytes", "Held in memory by the run's clients for resending.")),
        spooled_(families.gauge("scalewatch_client_spooled_bytes", "Held on disk by the run's clients for resending.")),
        findings_(families.gauge("scalewatch_findings_open", "Open findings of the run, by severity.")),
        rule_findings_(families.gauge("scalewatch_rule_findings_open", "Open findings of the run, by rule and severity.")),
        scale_(families.gauge("scalewatch_scaler_scale", "Newest loss scale.")),
        tracker_(families.gauge("scalewatch_scaler_growth_tracker", "Clean attempts since the scale last changed.")),
        consecutive_(families.gauge("scalewatch_scaler_consecutive_skips", "Attempts skipped in a row up to now.")),
        ratio_(families.gauge("scalewatch_scaler_skip_ratio",
                              "Share of skipped attempts among the newest 200 at most, since the first one was applied.")),
        calibrating_(families.gauge("scalewatch_scaler_calibrating", "1 until the first attempt is applied, then 0.")),
        outcomes_(families.counter("scalewatch_scaler_attempts_total",
                                   "Attempts of the scaler in the run's newest segment, by outcome.")),
        growths_(
            families.counter("scalewatch_scaler_growths_total", "Times that the scale grew in the run's newest segment.")) {}

  // Returns how many scalers were left out.
  std::size_t add(const v1::GetRunResponse& overview, std::size_t max_scalers) {
    const v1::RunSummary& run = overview.run();
    const std::string& name = run.name();
    const std::string policy = overview.scalers_size() > 0 ? overview.scalers(0).policy() : "none";
    info_.add({{"run", name},
               {"run_uid", run.run_uid()},
               {"framework", run.framework()},
               {"dtype", dtype_name(run.compute_dtype())},
               {"world_size", std::to_string(run.world_size())},
               {"policy", policy}},
              1);
    last_report_.add({{"run", name}}, static_cast<double>(run.last_report_ms()) / 1000);
    ranks_.add({{"run", name}}, run.world_size());
    connected_.add({{"run", name}}, run.ranks_connected());
    attempts_.add({{"run", name}, {"outcome", "applied"}}, static_cast<double>(run.applied()));
    attempts_.add({{"run", name}, {"outcome", "skipped"}}, static_cast<double>(run.skipped()));
    attempts_.add({{"run", name}, {"outcome", "partial"}}, static_cast<double>(run.partial()));
    if (run.has_loss()) loss_.add({{"run", name}}, run.loss());
    lost_.add({{"run", name}}, static_cast<double>(run.lost_reports()));
    add_clients(overview);
    add_findings(overview);
    return add_scalers(overview, max_scalers);
  }

 private:
  // Sums over ranks: causes are few by name, ranks are not. Causes that the run never had are left out.
  void add_clients(const v1::GetRunResponse& overview) {
    const std::string& name = overview.run().name();
    std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> losses;
    std::uint64_t trainer_ns = 0;
    std::uint64_t measure_ns = 0;
    std::uint64_t client_ns = 0;
    std::uint64_t gpu_ns = 0;
    std::uint64_t driver_calls = 0;
    std::uint64_t buffered = 0;
    std::uint64_t spooled = 0;
    for (const v1::RankSummary& rank : overview.ranks()) {
      for (const v1::LossSummary& loss : rank.losses()) {
        losses[loss.cause()].first += loss.reports();
        losses[loss.cause()].second += loss.thinned();
      }
      trainer_ns += rank.trainer_thread_ns();
      measure_ns += rank.measure_ns();
      client_ns += rank.client_thread_ns();
      gpu_ns += rank.gpu_ns();
      driver_calls += rank.cuda_driver_calls();
      buffered += rank.buffered_bytes();
      spooled += rank.spooled_bytes();
    }
    for (const auto& [cause, counts] : losses) {
      lost_by_cause_.add({{"run", name}, {"cause", cause}}, static_cast<double>(counts.first));
      thinned_.add({{"run", name}, {"cause", cause}}, static_cast<double>(counts.second));
    }
    trainer_seconds_.add({{"run", name}}, static_cast<double>(trainer_ns) * 1e-9);
    measure_seconds_.add({{"run", name}}, static_cast<double>(measure_ns) * 1e-9);
    client_seconds_.add({{"run", name}}, static_cast<double>(client_ns) * 1e-9);
    gpu_seconds_.add({{"run", name}}, static_cast<double>(gpu_ns) * 1e-9);
    driver_calls_.add({{"run", name}}, static_cast<double>(driver_calls));
    buffered_.add({{"run", name}}, static_cast<double>(buffered));
    spooled_.add({{"run", name}}, static_cast<double>(spooled));
  }

  void add_findings(const v1::GetRunResponse& overview) {
    const std::string& name = overview.run().name();
    std::map<std::pair<std::string, v1::Severity>, std::uint64_t> by_rule;
    std::map<v1::Severity, std::uint64_t> by_severity;
    for (const v1::Finding& finding : overview.findings()) {
      if (!finding.open()) continue;
      ++by_severity[finding.severity()];
      ++by_rule[{finding.rule(), finding.severity()}];
    }
    for (const auto& [severity, label] : kSeverities) {
      findings_.add({{"run", name}, {"severity", label}}, static_cast<double>(by_severity[severity]));
      for (const auto& [key, count] : by_rule) {
        if (key.second != severity) continue;
        rule_findings_.add({{"run", name}, {"rule", key.first}, {"severity", label}}, static_cast<double>(count));
      }
    }
  }

  std::size_t add_scalers(const v1::GetRunResponse& overview, std::size_t max_scalers) {
    const std::size_t all = static_cast<std::size_t>(overview.scalers_size());
    const std::size_t shown = std::min(all, max_scalers);
    std::set<std::string> used;
    for (std::size_t i = 0; i < shown; ++i) {
      const v1::ScalerSummary& scaler = overview.scalers(static_cast<int>(i));
      // One series twice would make Prometheus refuse the whole page, so a second scaler of a name gets its number.
      std::string label = scaler.name().empty() ? std::to_string(scaler.scaler()) : scaler.name();
      while (!used.insert(label).second) label += "#" + std::to_string(i);
      const Labels labels = {{"run", overview.run().name()}, {"scaler", label}};
      const auto with_outcome = [&](const char* outcome) {
        Labels more = labels;
        more.push_back({"outcome", outcome});
        return more;
      };
      if (scaler.has_scale()) scale_.add(labels, scaler.scale());
      if (scaler.has_growth_tracker()) tracker_.add(labels, static_cast<double>(scaler.growth_tracker()));
      consecutive_.add(labels, static_cast<double>(scaler.consecutive_skips()));
      ratio_.add(labels, scaler.skip_ratio());
      calibrating_.add(labels, scaler.calibrating() ? 1 : 0);
      outcomes_.add(with_outcome("applied"), static_cast<double>(scaler.applied()));
      outcomes_.add(with_outcome("skipped"), static_cast<double>(scaler.skipped()));
      growths_.add(labels, static_cast<double>(scaler.growths()));
    }
    return all - shown;
  }

  Family& info_;
  Family& last_report_;
  Family& ranks_;
  Family& connected_;
  Family& attempts_;
  Family& loss_;
  Family& lost_;
  Family& lost_by_cause_;
  Family& thinned_;
  Family& trainer_seconds_;
  Family& measure_seconds_;
  Family& client_seconds_;
  Family& gpu_seconds_;
  Family& driver_calls_;
  Family& buffered_;
  Family& spooled_;
  Family& findings_;
  Family& rule_findings_;
  Family& scale_;
  Family& tracker_;
  Family& consecutive_;
  Family& ratio_;
  Family& calibrating_;
  Family& outcomes_;
  Family& growths_;
};

}  // namespace

void add_run_metrics(const Overviews& overviews, const Options& options, std::int64_t now_ms, Families& families) {
  std::size_t runs_left_out = 0;
  std::size_t scalers_left_out = 0;
  const Overviews runs = choose(overviews, options, now_ms, runs_left_out);
  RunFamilies out(families);
  for (const auto& overview : runs) scalers_left_out += out.add(*overview, options.max_scalers_per_run);
  families.gauge("scalewatch_runs", "Runs on this page.").add({}, static_cast<double>(runs.size()));
  families.gauge("scalewatch_runs_left_out", "Runs that metrics.max_runs keeps off this page.")
      .add({}, static_cast<double>(runs_left_out));
  families.gauge("scalewatch_scalers_left_out", "Scalers that metrics.max_scalers_per_run keeps off this page.")
      .add({}, static_cast<double>(scalers_left_out));
}

}  // namespace scalewatch::metrics
