// A job of ranks in one process that report through the real client at a steady pace, without training anything:
//   client_load_trainer SERVER RUN RANKS TENSORS ATTEMPTS_PER_S SECONDS [NAN_EVERY [BUFFER_BYTES]]
// The loss is NaN at every NAN_EVERY-th attempt (0 = never), and rank 0 prints its wall clock, Unix milliseconds: nan_at MS
// At the end there is a line a rank; U is the longest time from begin to end of an attempt:
//   rank N attempts A durable D thinned T lost L longest_us U
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "scalewatch/scalewatch.hpp"

namespace {

using Clock = std::chrono::steady_clock;

struct Job {
  std::string server, run;
  unsigned ranks = 1;
  unsigned tensors = 1;
  double pace = 10;
  double seconds = 1;
  std::int64_t nan_every = 0;
  std::uint64_t buffer_bytes = 0;
};

constexpr std::size_t kElements = 32;
constexpr double kScale = 65536;

void train(const Job& job, unsigned rank) {
  scalewatch::MonitorOptions options;
  options.run = job.run;
  options.server = job.server;
  options.rank = rank;
  options.world_size = job.ranks;
  options.buffer_bytes = job.buffer_bytes;
  scalewatch::Monitor monitor(options);
  const auto scaler = monitor.add_scaler("default", "pytorch", {{"init_scale", kScale}, {"growth_interval", 1e9}});
  scalewatch::OptimizerOptions adam;
  adam.scaler = scaler;
  const auto optimizer = monitor.add_optimizer(adam);
  std::vector<scalewatch::Monitor::TensorId> tensors;
  for (unsigned i = 0; i < job.tensors; ++i) {
    scalewatch::TensorOptions tensor;
    tensor.name = "layers." + std::to_string(i) + ".weight";
    tensor.numel = kElements;
    tensor.forward_index = i;
    tensors.push_back(monitor.add_tensor(tensor));
  }

  std::minstd_rand random(rank + 1);
  std::vector<float> pool(4096);
  for (float& value : pool) value = static_cast<float>(random()) * 1e-6F + 1e-3F;
  const auto begin = Clock::now();
  double longest = 0;
  for (std::int64_t step = 1;; ++step) {
    const auto due = begin + std::chrono::duration_cast<Clock::duration>(
                                 std::chrono::duration<double>(static_cast<double>(step) / job.pace));
    if (due - begin > std::chrono::duration<double>(job.seconds)) break;
    std::this_thread::sleep_until(due);
    const auto start = Clock::now();
    monitor.begin_attempt(step);
    for (const auto tensor : tensors) monitor.observe(tensor, &pool[random() % (pool.size() - kElements)], kElements, kScale);
    monitor.observe_optimizer(scaler, optimizer, 0, 0, SCALEWATCH_APPLIED);
    monitor.observe_scaler(scaler, kScale, kScale, step);
    const bool bad = job.nan_every > 0 && step % job.nan_every == 0;
    monitor.set_loss(bad ? std::numeric_limits<double>::quiet_NaN() : 1.0 + static_cast<double>(random() % 100) / 100);
    monitor.end_attempt();
    if (bad && rank == 0) {
      const auto wall = std::chrono::system_clock::now().time_since_epoch();
      std::printf("nan_at %lld\n", static_cast<long long>(std::chrono::duration_cast<std::chrono::milliseconds>(wall).count()));
    }
    longest = std::max(longest, std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  monitor.wait_durable(60'000);
  const scalewatch_stats stats = monitor.stats();
  monitor.close();
  std::printf("rank %u attempts %llu durable %llu thinned %llu lost %llu longest_us %.0f\n", rank,
              static_cast<unsigned long long>(stats.attempts), static_cast<unsigned long long>(stats.durable_attempts),
              static_cast<unsigned long long>(stats.reports_thinned),
              static_cast<unsigned long long>(stats.dropped_buffer_full + stats.dropped_queue_full + stats.dropped_too_large +
                                              stats.dropped_rejected + stats.dropped_internal + stats.dropped_stopped),
              longest);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 7) return 2;
  Job job{argv[1], argv[2]};
  job.ranks = static_cast<unsigned>(std::atoi(argv[3]));
  job.tensors = static_cast<unsigned>(std::atoi(argv[4]));
  job.pace = std::atof(argv[5]);
  job.seconds = std::atof(argv[6]);
  if (argc > 7) job.nan_every = std::atoll(argv[7]);
  if (argc > 8) job.buffer_bytes = std::strtoull(argv[8], nullptr, 10);
  std::vector<std::thread> ranks;
  for (unsigned rank = 0; rank < job.ranks; ++rank) ranks.emplace_back([&job, rank] { train(job, rank); });
  for (auto& rank : ranks) rank.join();
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
