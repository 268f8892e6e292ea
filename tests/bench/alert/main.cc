// Time from a client's report of a NaN in a weight to the webhook's receipt: at rest, beside as many records as the server
// takes, and beside half of them.
//   scalewatch_bench_alert [--json] [--alerts N]
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "scalewatch/scalewatch.hpp"
#include "tests/bench/support/http_sink.h"
#include "tests/bench/support/load.h"
#include "tests/bench/support/server_process.h"

namespace {

using namespace std::chrono_literals;
using scalewatch::bench::HttpSink;

struct Summary {
  double p50 = 0;  // milliseconds
  double p99 = 0;
  double max = 0;
};

// A run of its own: one good attempt, then one with a NaN weight; milliseconds from there to the alert at the sink.
double one_alert(const std::string& server, HttpSink& sink, const std::string& run) {
  scalewatch::MonitorOptions options;
  options.run = run;
  options.server = server;
  options.compute_dtype = SCALEWATCH_FP32;  // so that nothing but the NaN is wrong
  scalewatch::Monitor monitor(options);
  scalewatch::TensorOptions tensor;
  tensor.name = "weight";
  tensor.role = SCALEWATCH_PARAMETER;
  std::array<float, 64> values{};
  tensor.numel = values.size();
  const auto id = monitor.add_tensor(tensor);
  const auto attempt = [&](std::int64_t step) {
    monitor.begin_attempt(step);
    monitor.observe(id, values.data(), values.size());
    monitor.set_loss(1.0);
  };
  attempt(1);
  monitor.end_attempt();
  if (!monitor.wait_durable(10'000)) throw std::runtime_error("the server does not take reports");

  values[5] = std::nanf("");
  attempt(2);
  const auto begin = HttpSink::Clock::now();
  monitor.end_attempt();
  const auto arrived = sink.arrival("\"run\":\"" + run + "\"", 10s);
  if (!arrived) throw std::runtime_error("no alert within 10 s");
  return std::chrono::duration<double, std::milli>(*arrived - begin).count();
}

Summary measure(const std::string& server, HttpSink& sink, const std::string& name, std::uint32_t alerts) {
  std::vector<double> times;
  for (std::uint32_t i = 0; i < alerts; ++i) times.push_back(one_alert(server, sink, name + "-" + std::to_string(i) + "-run"));
  std::sort(times.begin(), times.end());
  const auto at = [&](double share) {
    return times[std::min(times.size() - 1, static_cast<std::size_t>(share * static_cast<double>(times.size())))];
  };
  return {at(0.5), at(0.99), times.back()};
}

// The same beside a load; records_per_s: that became durable meanwhile.
Summary measure_beside(const scalewatch::bench::LoadOptions& options, HttpSink& sink, std::uint32_t alerts,
                       double& records_per_s) {
  scalewatch::bench::Load load(options);
  while (load.durable_reports() < 2U * options.streams) std::this_thread::sleep_for(10ms);
  const auto begin = HttpSink::Clock::now();
  const std::uint64_t before = load.durable_reports();
  const Summary out = measure(options.server, sink, options.run, alerts);
  const double seconds = std::chrono::duration<double>(HttpSink::Clock::now() - begin).count();
  records_per_s = static_cast<double>(load.durable_reports() - before) * options.tensors / seconds;
  load.finish();
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    bool json = false;
    std::uint32_t alerts = 100;
    for (int i = 1; i < argc; ++i) {
      if (std::string_view(argv[i]) == "--json") {
        json = true;
      } else if (std::string_view(argv[i]) == "--alerts" && i + 1 < argc && std::atoi(argv[i + 1]) > 0) {
        alerts = static_cast<std::uint32_t>(std::atoi(argv[++i]));
      } else {
        throw std::invalid_argument("usage: scalewatch_bench_alert [--json] [--alerts N]");
      }
    }
    HttpSink sink;
    const scalewatch::bench::ServerProcess server(
        "collection:\n  stats_leader: false\nalerting:\n  sinks:\n    - {name: bench, type: webhook, url: '" + sink.url() +
        "'}\n");
    const Summary rest = measure(server.address(), sink, "rest", alerts);

    scalewatch::bench::LoadOptions options;
    options.server = server.address();
    double records = 0;
    const Summary loaded = measure_beside(options, sink, alerts, records);
    options.run = "half";
    options.attempts_per_s =
        std::max<std::uint32_t>(1, static_cast<std::uint32_t>(records / 2 / options.streams / options.tensors));
    double half_records = 0;
    const Summary half = measure_beside(options, sink, alerts, half_records);

    if (json) {
      std::printf(
          "{\"rest_p50_ms\": %.1f, \"rest_p99_ms\": %.1f, \"rest_max_ms\": %.1f, \"load_p50_ms\": %.1f, \"load_p99_ms\": %.1f, "
          "\"load_max_ms\": %.1f, \"load_records_per_s\": %.0f, \"half_p50_ms\": %.1f, \"half_p99_ms\": %.1f, \"half_max_ms\": "
          "%.1f, "
          "\"half_records_per_s\": %.0f, \"alerts\": %u}\n",
          rest.p50, rest.p99, rest.max, loaded.p50, loaded.p99, loaded.max, records, half.p50, half.p99, half.max, half_records,
          alerts);
    } else {
      std::printf("report to webhook, %u alerts each\n", alerts);
      std::printf("at rest     p50 %.1f ms  p99 %.1f ms  max %.1f ms\n", rest.p50, rest.p99, rest.max);
      std::printf("under load  p50 %.1f ms  p99 %.1f ms  max %.1f ms  (%.0f records/s beside it)\n", loaded.p50, loaded.p99,
                  loaded.max, records);
      std::printf("half load   p50 %.1f ms  p99 %.1f ms  max %.1f ms  (%.0f records/s)\n", half.p50, half.p99, half.max,
                  half_records);
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "scalewatch_bench_alert: %s\n", error.what());
    return 1;
  }
}
