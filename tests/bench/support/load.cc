#include "tests/bench/support/load.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <exception>
#include <random>
#include <stdexcept>
#include <utility>

#include "scalewatch/scalewatch.hpp"
#include "tests/bench/support/load_source.h"

namespace scalewatch::bench {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kLatencies = 10'000;  // milliseconds

using Clock = std::chrono::steady_clock;

// When each attempt that is not durable yet ended.
class Waiting {
 public:
  void ended() { ends_.push_back(Clock::now()); }
  void durable(std::uint64_t attempts, std::vector<std::uint64_t>& after_ms) {
    if (attempts <= done_) return;
    const auto now = Clock::now();
    for (; done_ < attempts && !ends_.empty(); ++done_) {
      const auto ms = static_cast<std::size_t>((now - ends_.front()) / 1ms);
      ++after_ms[std::min(ms, kLatencies - 1)];
      ends_.pop_front();
    }
  }

 private:
  std::deque<Clock::time_point> ends_;
  std::uint64_t done_ = 0;
};

}  // namespace

struct Load::Stream {
  Stream() = default;
  Stream(Stream&& other) noexcept : durable(other.durable.load()), totals(other.totals), error(std::move(other.error)) {}
  std::atomic<std::uint64_t> durable{0};
  LoadTotals totals;
  std::string error;
};

Load::Load(LoadOptions options) : options_(std::move(options)), streams_(options_.streams) {
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
  const auto source = options_.replay != nullptr ? make_replayed_source(*options_.replay, options_.tensors, rank)
                                                 : make_measured_source(options_.tensors, rank);
  const double scale = source->scale();
  const auto scaler = monitor.add_scaler("default", "pytorch", {{"init_scale", scale}, {"growth_interval", 1e9}});
  OptimizerOptions adam;
  adam.scaler = scaler;
  const auto optimizer = monitor.add_optimizer(adam);
  source->declare(monitor);

  Waiting waiting;
  stream.totals.durable_after_ms.resize(kLatencies);
  std::minstd_rand random(rank + 1);
  scalewatch_stats stats = monitor.stats();
  const auto begin = std::chrono::steady_clock::now();
  for (std::int64_t step = 1; !stop_; ++step) {
    if (options_.attempts_per_s > 0) {
      std::this_thread::sleep_until(begin + std::chrono::microseconds(step * 1'000'000 / options_.attempts_per_s));
    }
    monitor.begin_attempt(step);
    source->observe(monitor);
    monitor.observe_optimizer(scaler, optimizer, 0, 0, SCALEWATCH_APPLIED);
    monitor.observe_scaler(scaler, scale, scale, step);
    monitor.set_loss(1.0 + static_cast<double>(random() % 1000) / 1000);
    monitor.end_attempt();
    waiting.ended();
    for (;;) {
      stats = monitor.stats();
      stream.durable = stats.durable_attempts;
      waiting.durable(stats.durable_attempts, stream.totals.durable_after_ms);
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
    totals.durable_after_ms.resize(kLatencies);
    for (std::size_t ms = 0; ms < stream.totals.durable_after_ms.size(); ++ms) {
      totals.durable_after_ms[ms] += stream.totals.durable_after_ms[ms];
    }
  }
  return totals;
}

}  // namespace scalewatch::bench
