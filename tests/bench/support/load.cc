#include "tests/bench/support/load.h"

#include <chrono>
#include <cmath>
#include <exception>
#include <random>
#include <stdexcept>
#include <utility>

#include "scalewatch/scalewatch.hpp"

namespace scalewatch::bench {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kElements = 64;  // of a tensor
constexpr std::size_t kPool = 1U << 20;
constexpr double kScale = 65536;

// Of ten tensors five are gradients, three activations and two parameters.
struct Tensor {
  Monitor::TensorId id = 0;
  scalewatch_role role = SCALEWATCH_GRADIENT;
};

std::vector<Tensor> declare(Monitor& monitor, std::uint32_t count) {
  std::vector<Tensor> tensors;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t kind = i * 10 / count;
    TensorOptions options;
    options.role = kind < 5 ? SCALEWATCH_GRADIENT : kind < 8 ? SCALEWATCH_ACTIVATION : SCALEWATCH_PARAMETER;
    options.dtype = options.role == SCALEWATCH_PARAMETER ? SCALEWATCH_FP32 : SCALEWATCH_FP16;
    options.name = "layers." + std::to_string(i % 500) + ".block.weight";
    options.numel = kElements;
    options.forward_index = i % 500;
    tensors.push_back({monitor.add_tensor(options), options.role});
  }
  return tensors;
}

}  // namespace

struct Load::Stream {
  Stream() = default;
  Stream(Stream&& other) noexcept : durable(other.durable.load()), totals(other.totals), error(std::move(other.error)) {}
  std::atomic<std::uint64_t> durable{0};
  LoadTotals totals;
  std::string error;
};

Load::Load(LoadOptions options) : options_(std::move(options)), singles_(kPool), halves_(kPool), streams_(options_.streams) {
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  for (std::size_t i = 0; i < kPool; ++i) {
    // Magnitudes over some octaves, as gradients have them.
    const float value = normal(random) * std::exp2(static_cast<float>(i / 4096 % 16) - 8);
    singles_[i] = value;
    halves_[i] = static_cast<_Float16>(value);
  }
  for (std::uint32_t rank = 0; rank < options_.streams; ++rank) {
    threads_.emplace_back([this, rank] {
      try {
        run(streams_[rank], rank);
      } catch (const std::exception& error) {
        streams_[rank].error = error.what();
      }
    });
  }
}

Load::~Load() {
  stop_ = true;
  for (auto& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void Load::run(Stream& stream, std::uint32_t rank) {
  MonitorOptions options;
  options.run = options_.run;
  options.server = options_.server;
  options.rank = rank;
  options.world_size = options_.streams;
  Monitor monitor(options);
  const auto scaler = monitor.add_scaler("default", "pytorch", {{"init_scale", kScale}, {"growth_interval", 1e9}});
  OptimizerOptions adam;
  adam.scaler = scaler;
  const auto optimizer = monitor.add_optimizer(adam);
  const auto tensors = declare(monitor, options_.tensors);

  std::minstd_rand random(rank + 1);
  scalewatch_stats stats = monitor.stats();
  const auto begin = std::chrono::steady_clock::now();
  for (std::int64_t step = 1; !stop_; ++step) {
    if (options_.attempts_per_s > 0) {
      std::this_thread::sleep_until(begin + std::chrono::microseconds(step * 1'000'000 / options_.attempts_per_s));
    }
    monitor.begin_attempt(step);
    for (const Tensor& tensor : tensors) {
      const std::size_t at = random() % (kPool - kElements);
      const void* data = tensor.role == SCALEWATCH_PARAMETER ? static_cast<const void*>(&singles_[at]) : &halves_[at];
      monitor.observe(tensor.id, data, kElements, tensor.role == SCALEWATCH_GRADIENT ? kScale : 1);
    }
    monitor.observe_optimizer(scaler, optimizer, 0, 0, SCALEWATCH_APPLIED);
    monitor.observe_scaler(scaler, kScale, kScale, step);
    monitor.set_loss(1.0 + static_cast<double>(random() % 1000) / 1000);
    monitor.end_attempt();
    for (;;) {
      stats = monitor.stats();
      stream.durable = stats.durable_attempts;
      if (stats.attempts - stats.durable_attempts < options_.in_flight || stop_) break;
      std::this_thread::sleep_for(1ms);
    }
  }
  if (!monitor.wait_durable(60'000))
    throw std::runtime_error(std::string("not all reports became durable: ") + stats.last_fault);
  stats = monitor.stats();
  stream.durable = stats.durable_attempts;
  stream.totals.durable = stats.durable_attempts;
  stream.totals.thinned = stats.reports_thinned;
  stream.totals.dropped = stats.dropped_buffer_full + stats.dropped_queue_full + stats.dropped_too_large +
                          stats.dropped_rejected + stats.dropped_internal + stats.dropped_stopped;
  monitor.close();
}

std::uint64_t Load::durable_reports() const {
  std::uint64_t reports = 0;
  for (const Stream& stream : streams_) reports += stream.durable;
  return reports;
}

LoadTotals Load::finish() {
  stop_ = true;
  for (auto& thread : threads_) thread.join();
  LoadTotals totals;
  for (const Stream& stream : streams_) {
    if (!stream.error.empty()) throw std::runtime_error(stream.error);
    totals.durable += stream.totals.durable;
    totals.thinned += stream.totals.thinned;
    totals.dropped += stream.totals.dropped;
  }
  return totals;
}

}  // namespace scalewatch::bench
