// What a scrape costs: the page of many runs as the server makes it, and what ingest pays so that there is something to show.
//
// Goals: a scrape of 1,000 runs within 50 ms of CPU; ingest waits for no lock that a scrape holds for longer than copies of
// pointers, so it pays the tensor meter only. Figures are thread time, so that a busy machine does not count.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "server/engine/tensor_meter.h"
#include "server/metrics/exporter.h"

namespace {

using namespace scalewatch;

constexpr double kGoalMs = 50;
constexpr int kScrapes = 50;
constexpr std::int64_t kNow = 1'700'000'000'000;

double thread_ms() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

// A run of 8 ranks with one scaler, three measured roles, ten tensors, five labels and two open findings.
engine::RunShown make_run(int number) {
  auto overview = std::make_shared<v1::GetRunResponse>();
  v1::RunSummary& run = *overview->mutable_run();
  run.set_name("team-" + std::to_string(number % 20) + "/pretrain-7b-seed-" + std::to_string(number));
  run.set_run_uid("0123456789ab" + std::to_string(number));
  run.set_status(v1::RUN_STATUS_RUNNING);
  run.set_framework("pytorch");
  run.set_compute_dtype(v1::DTYPE_FP16);
  run.set_world_size(8);
  run.set_ranks_connected(8);
  run.set_applied(123'456);
  run.set_skipped(61);
  run.set_last_report_ms(kNow - 120);
  run.set_loss(2.345 + number * 1e-3);
  for (const char* name : {"team", "cluster", "owner", "queue", "commit"}) (*run.mutable_labels())[name] = "some-value";
  v1::ScalerSummary& scaler = *overview->add_scalers();
  scaler.set_name("default");
  scaler.set_policy("pytorch");
  scaler.set_scale(65536);
  scaler.set_growth_tracker(static_cast<std::uint64_t>(number));
  scaler.set_skip_ratio(0.005);
  for (std::uint32_t number_of = 0; number_of < 8; ++number_of) {
    v1::RankSummary& rank = *overview->add_ranks();
    rank.set_rank(number_of);
    rank.set_host("node-" + std::to_string(number_of));
    rank.set_trainer_thread_ns(123'456'789);
    rank.set_client_thread_ns(987'654'321);
  }
  for (const char* rule : {"ScaleDrift", "LowHeadroom"}) {
    v1::Finding& finding = *overview->add_findings();
    finding.set_rule(rule);
    finding.set_severity(v1::SEVERITY_WARNING);
    finding.set_open(true);
  }
  auto readings = std::make_shared<engine::RunReadings>();
  readings->scalers.push_back({{}, 1.0});
  readings->gradient_norm = 1.25;
  for (const Role role : {Role::kGradient, Role::kParameter, Role::kActivation}) {
    readings->roles.at(static_cast<std::size_t>(role)) = {.headroom = 3.21, .non_zero = 7e9, .under = 1e6, .worst_under = 0.1};
  }
  for (int i = 0; i < 10; ++i) {
    readings->tensors.push_back({"layers." + std::to_string(i) + ".attention.qkv.weight", Role::kGradient, 1.5 + i});
  }
  return {overview, readings};
}

struct Page {
  double p50 = 0;
  double p99 = 0;
  std::size_t bytes = 0;
  std::size_t series = 0;
};

Page scrape(int count) {
  std::vector<engine::RunShown> runs;
  for (int i = 0; i < count; ++i) runs.push_back(make_run(i));
  metrics::Options options;
  options.max_runs = static_cast<std::size_t>(count);
  const metrics::Exporter exporter(
      options,
      {[&] { return runs; }, [] { return engine::EngineStats(); }, [] { return std::vector<metrics::SinkSample>(); },
       [] { return metrics::StoreSample(); }, [] { return metrics::ReloadSample(); }, [] { return kNow; }},
      "bench");
  Page out;
  std::vector<double> times;
  for (int i = 0; i < kScrapes; ++i) {
    const double before = thread_ms();
    const std::string page = exporter.page();
    times.push_back(thread_ms() - before);
    out.bytes = page.size();
    out.series = static_cast<std::size_t>(std::count(page.begin(), page.end(), '\n'));
  }
  std::sort(times.begin(), times.end());
  out.p50 = times[kScrapes / 2];
  out.p99 = times[kScrapes - 1];
  return out;
}

// ns a record of the tensor meter, when a report is looked at.
double meter_ns(std::uint32_t tensors) {
  auto table = std::make_shared<domain::TensorTable>(tensors);
  std::vector<float> low(tensors);
  std::vector<float> high(tensors);
  std::vector<double> sum_sq(tensors, 1e-3);
  for (std::uint32_t i = 0; i < tensors; ++i) {
    domain::TensorInfo& info = (*table)[i];
    info.name = "t" + std::to_string(i);
    info.role = Role::kGradient;
    info.dtype = DType::kFp16;
    info.numel = 1000;
    high[i] = static_cast<float>(i * 7919 % 10'007);
    low[i] = -high[i];
  }
  domain::RecordColumns block;
  block.role = Role::kGradient;
  block.target = DType::kFp16;
  block.measured_under_scale = 65536;
  block.count = tensors;
  block.min = low;
  block.max = high;
  block.sum_sq = sum_sq;
  const std::array blocks = {block};
  domain::AttemptDigest digest;
  digest.table = table;
  engine::TensorMeter meter;
  meter.configure(DType::kFp16, 10);
  constexpr int kLooks = 200;
  const double before = thread_ms();
  for (int i = 1; i <= kLooks; ++i) meter.take(blocks, digest, std::int64_t{1000} * i);
  return (thread_ms() - before) * 1e6 / kLooks / tensors;
}

}  // namespace

int main(int argc, char** argv) {
  const bool json = argc > 1 && std::strcmp(argv[1], "--json") == 0;
  const std::array counts = {1000, 10'000};
  std::array<Page, counts.size()> pages;
  for (std::size_t i = 0; i < counts.size(); ++i) pages.at(i) = scrape(counts.at(i));
  const double looked_at = meter_ns(1000);
  if (json) {
    std::printf("{\"bench\":\"scrape\",\"goal_ms\":%.0f,\"meter_ns\":%.1f,\"pages\":[", kGoalMs, looked_at);
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const Page& page = pages.at(i);
      std::printf("%s{\"runs\":%d,\"p50_ms\":%.1f,\"p99_ms\":%.1f,\"lines\":%zu,\"bytes\":%zu}", i == 0 ? "" : ",",
                  counts.at(i), page.p50, page.p99, page.series, page.bytes);
    }
    std::puts("]}");
    return EXIT_SUCCESS;
  }
  std::printf("%-28s %10s %10s %8s %10s %10s\n", "scrape, CPU", "p50 ms", "p99 ms", "goal", "lines", "MB");
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const Page& page = pages.at(i);
    const std::string goal = counts.at(i) == 1000 ? std::to_string(static_cast<int>(kGoalMs)) : "";
    std::printf("%-28s %10.1f %10.1f %8s %10zu %10.1f\n", (std::to_string(counts.at(i)) + " runs").c_str(), page.p50, page.p99,
                goal.c_str(), page.series, static_cast<double>(page.bytes) * 1e-6);
  }
  std::printf("ingest pays %.1f ns a record of reports that are looked at, four a second and rank at most\n", looked_at);
  return EXIT_SUCCESS;
}
