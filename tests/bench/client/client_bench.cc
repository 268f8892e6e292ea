// scalewatch_bench_client [--json]: the client's cost on the trainer's thread, and packing on one core.
//
// No server is needed: the client buffers, thins and drops as it would with the server away. Medians over many rounds.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "client_lib/src/pack.h"
#include "scalewatch/scalewatch.hpp"

namespace {

constexpr int kTensors = 1000;
constexpr int kRounds = 200;
constexpr int kSmall = 64;  // elements of a small tensor

double ns_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

struct Results {
  double observe_ns = 0;          // bookkeeping of one tensor whose statistics exist already
  double observe_measure_ns = 0;  // one tensor of 64 floats, pass over the data included
  double end_attempt_us = 0;      // of an attempt with 1,000 tensors
  double pack_records_per_s = 0;
};

void bench_trainer(Results& results) {
  scalewatch::MonitorOptions options;
  options.run = "bench";
  options.server = "127.0.0.1:1";  // nobody listens
  scalewatch::Monitor monitor(options);
  std::vector<std::uint32_t> tensors;
  for (int i = 0; i < kTensors; ++i) {
    scalewatch::TensorOptions tensor;
    tensor.name = "layers." + std::to_string(i) + ".weight";
    tensor.numel = kSmall;
    tensors.push_back(monitor.add_tensor(tensor));
  }
  const std::vector<float> data(kSmall, 0.5F);
  scalewatch_record record{};
  record.size = sizeof record;
  record.numel = kSmall;
  std::vector<double> observe;
  std::vector<double> observe_measure;
  std::vector<double> end_attempt;
  for (int round = 0; round < kRounds; ++round) {
    const bool measured = round % 2 == 0;
    monitor.begin_attempt(round);
    const auto begin = std::chrono::steady_clock::now();
    if (measured) {
      for (const std::uint32_t tensor : tensors) monitor.observe(tensor, data.data(), data.size());
    } else {
      for (const std::uint32_t tensor : tensors) scalewatch_observe_record(monitor.handle(), tensor, &record, 1, 0);
    }
    (measured ? observe_measure : observe).push_back(ns_since(begin) / kTensors);
    const auto ending = std::chrono::steady_clock::now();
    monitor.end_attempt();
    end_attempt.push_back(ns_since(ending) / 1000);
    // A step takes longer than this; the client's thread works meanwhile.
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  results.observe_ns = median(observe);
  results.observe_measure_ns = median(observe_measure);
  results.end_attempt_us = median(end_attempt);
  monitor.close(0);
}

void bench_pack(Results& results) {
  scalewatch::client::Attempt attempt;
  for (int i = 0; i < kTensors; ++i) {
    auto& measured = attempt.measured.emplace_back();
    measured.id = static_cast<std::uint32_t>(i);
    measured.role = scalewatch::Role::kGradient;
    measured.target = scalewatch::DType::kFp16;
    measured.micro_batches = 1;
    measured.table_numel = measured.record.numel = kSmall;
    measured.record.subnormal = static_cast<std::uint64_t>(i);
  }
  scalewatch::client::ReportPacker packer;
  std::vector<double> rates;
  std::size_t bytes = 0;
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 10; ++i) bytes += packer.pack(attempt, {}).size();
    rates.push_back(10 * kTensors / ns_since(begin) * 1e9);
  }
  if (bytes > 0) results.pack_records_per_s = median(rates);
}

}  // namespace

int main(int argc, char** argv) {
  const bool json = argc == 2 && std::strcmp(argv[1], "--json") == 0;
  if (argc > 1 && !json) {
    std::fprintf(stderr, "usage: scalewatch_bench_client [--json]\n");
    return 2;
  }
  Results results;
  bench_trainer(results);
  bench_pack(results);
  if (json) {
    std::printf(
        "{\"observe_ns\": %.1f, \"observe_measure_ns\": %.1f, \"end_attempt_us\": %.2f, \"pack_records_per_s\": %.0f}\n",
        results.observe_ns, results.observe_measure_ns, results.end_attempt_us, results.pack_records_per_s);
    return 0;
  }
  std::printf("observe, statistics given     %10.1f ns      goal 50 ns\n", results.observe_ns);
  std::printf("observe 64 floats in memory   %10.1f ns\n", results.observe_measure_ns);
  std::printf("end_attempt, 1,000 tensors    %10.2f us      goal 20 us\n", results.end_attempt_us);
  std::printf("packing, one core             %10.0f rec/s   goal 2,000,000 rec/s\n", results.pack_records_per_s);
  return 0;
}
