// guarded_trainer SERVER RUN [SPOOL_DIR]: trains without a pause under the eyes of a TrainerGuard, phase by phase.
//
// Reads lines: "phase" ends the phase that runs, says what it was like as one line of JSON, and begins the next; "end" closes
// the monitor and says the same of all. Between attempts the trainer's thread spins: to sleep would be a system call.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "scalewatch/scalewatch.hpp"
#include "tests/unit/client/trainer_guard.h"

namespace {

using Clock = std::chrono::steady_clock;
using scalewatch::client_test::TrainerGuard;

constexpr std::uint32_t kTensors = 100;
constexpr std::chrono::milliseconds kStep{5};

struct Phase {
  std::uint64_t attempts = 0;
  std::uint64_t refused = 0;  // calls that returned false
  Clock::duration longest{};
  std::uint64_t allocations = 0;
  std::uint64_t locks = 0;
  std::uint64_t system_calls = 0;
  long last_system_call = -1;
};

class Trainer {
 public:
  explicit Trainer(const scalewatch::MonitorOptions& options) : monitor_(options) {
    scaler_ = monitor_.add_scaler("default", "pytorch");
    monitor_.add_optimizer({});
    for (std::uint32_t i = 0; i < kTensors; ++i) {
      tensors_.push_back(
          monitor_.add_tensor({"w" + std::to_string(i), SCALEWATCH_GRADIENT, SCALEWATCH_FP32, 64, i, "", "", ""}));
    }
    Phase warm_up;
    for (int i = 0; i < 3; ++i) attempt(warm_up);
  }

  // Until told to stop.
  Phase train(const std::atomic<bool>& stop) {
    Phase phase;
    const TrainerGuard guard;
    while (!stop.load(std::memory_order_relaxed)) {
      const auto begin = Clock::now();
      attempt(phase);
      phase.longest = std::max(phase.longest, Clock::now() - begin);
      while (Clock::now() < begin + kStep) {
      }
    }
    phase.allocations = guard.allocations();
    phase.locks = guard.locks();
    phase.system_calls = guard.system_calls();
    phase.last_system_call = guard.last_system_call();
    return phase;
  }

  [[nodiscard]] scalewatch::Monitor& monitor() { return monitor_; }

 private:
  void attempt(Phase& phase) {
    bool ok = monitor_.begin_attempt(++step_);
    for (const std::uint32_t tensor : tensors_) ok = monitor_.observe(tensor, data_.data(), data_.size(), 1024) && ok;
    ok = monitor_.observe_scaler(scaler_, 1024, 1024, step_) && ok;
    ok = monitor_.observe_optimizer(scaler_, 0, 0, 0, SCALEWATCH_APPLIED) && ok;
    ok = monitor_.set_loss(1) && monitor_.end_attempt() && ok;
    ++phase.attempts;
    phase.refused += ok ? 0 : 1;
  }

  scalewatch::Monitor monitor_;
  std::uint32_t scaler_ = 0;
  std::vector<std::uint32_t> tensors_;
  std::vector<float> data_ = std::vector<float>(64, 0.5F);
  std::int64_t step_ = 0;
};

void say(const Phase& phase, const scalewatch_stats& stats) {
  const auto longest = std::chrono::duration_cast<std::chrono::microseconds>(phase.longest).count();
  std::printf(
      "{\"attempts\": %llu, \"refused\": %llu, \"longest_us\": %lld, \"allocations\": %llu, \"locks\": %llu, "
      "\"system_calls\": %llu, \"last_system_call\": %ld, ",
      static_cast<unsigned long long>(phase.attempts), static_cast<unsigned long long>(phase.refused),
      static_cast<long long>(longest), static_cast<unsigned long long>(phase.allocations),
      static_cast<unsigned long long>(phase.locks), static_cast<unsigned long long>(phase.system_calls),
      phase.last_system_call);
  std::printf(
      "\"ended\": %llu, \"durable\": %llu, \"thinned\": %llu, \"dropped\": %llu, \"buffered\": %llu, \"connects\": %llu}\n",
      static_cast<unsigned long long>(stats.attempts), static_cast<unsigned long long>(stats.durable_attempts),
      static_cast<unsigned long long>(stats.reports_thinned),
      static_cast<unsigned long long>(stats.dropped_buffer_full + stats.dropped_queue_full + stats.dropped_internal +
                                      stats.dropped_too_large + stats.dropped_rejected + stats.dropped_spool_limit),
      static_cast<unsigned long long>(stats.buffered_bytes), static_cast<unsigned long long>(stats.connects));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  scalewatch::MonitorOptions options;
  options.server = argv[1];
  options.run = argv[2];
  if (argc > 3) options.spool_dir = argv[3];
  Trainer trainer(options);
  for (std::string line;;) {
    std::atomic<bool> stop{false};
    std::thread reader([&] {
      std::getline(std::cin, line);
      stop = true;
    });
    const Phase phase = trainer.train(stop);
    reader.join();
    if (line == "end" || !std::cin) {
      const bool durable = trainer.monitor().wait_durable(60'000);
      say(phase, trainer.monitor().stats());
      return trainer.monitor().close(20'000) && durable ? 0 : 1;
    }
    say(phase, trainer.monitor().stats());
  }
}
