// The trainer's time per attempt of 1,000 tensors, before and while the server is in trouble. The same trainer, the same run.
#include <signal.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "tests/bench/client/network.h"
#include "tests/bench/client/parts.h"
#include "tests/bench/client/trainer.h"
#include "tests/bench/support/server_process.h"

namespace scalewatch::bench {
namespace {

using namespace std::chrono_literals;

// Attempts 10 ms apart for so long.
Samples train(Trainer& trainer, std::chrono::milliseconds time) {
  Samples samples;
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
    const std::uint64_t begin = ticks();
    trainer.attempt();
    samples.add(ticks() - begin);
    std::this_thread::sleep_for(10ms);
  }
  return samples;
}

void report(Figures& figures, const std::string& key, const std::string& what, Samples samples, double before_p50) {
  const double p50 = samples.quantile_ns(0.5) / 1e3;
  figures.push_back({key + "_p50_us", what + ", p50", p50, "us", ""});
  figures.push_back({key + "_p99_us", what + ", p99", samples.quantile_ns(0.99) / 1e3, "us", ""});
  if (before_p50 > 0) figures.push_back({key + "_ratio", what + ", p50 beside a live server", p50 / before_p50, "x", "1.0 x"});
}

// Another client start of the same rank: the older one is told to stop.
void fence(const std::string& address) {
  Trainer newer(address, "faults");
  newer.attempt();
  newer.monitor().wait_durable(5000);
}

// A run more than the server takes.
void out_of_quota(Figures& figures, double p50) {
  ServerProcess server("engine:\n  max_runs: 1\n");
  Trainer first(server.address(), "first");
  first.attempt();
  first.monitor().wait_durable(5000);
  Trainer refused(server.address(), "second");
  train(refused, 500ms);
  report(figures, "quota", "attempt, out of quota", train(refused, 4s), p50);
  refused.monitor().close(0);
}

// The server runs a tenth of the time.
Samples train_beside_a_slow_one(Trainer& trainer, const ServerProcess& server) {
  std::jthread slow([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      server.signal(SIGSTOP);
      std::this_thread::sleep_for(90ms);
      server.signal(SIGCONT);
      std::this_thread::sleep_for(10ms);
    }
  });
  return train(trainer, 4s);
}

}  // namespace

void bench_faults(Figures& figures, bool own_network) {
  ServerProcess server;
  Trainer trainer(server.address(), "faults");
  train(trainer, 500ms);
  Samples live = train(trainer, 4s);
  const double p50 = live.quantile_ns(0.5) / 1e3;
  report(figures, "live", "attempt, server live", std::move(live), 0);

  server.signal(SIGSTOP);
  report(figures, "stopped", "attempt, server stopped (SIGSTOP)", train(trainer, 4s), p50);
  server.signal(SIGCONT);
  train(trainer, 1s);

  report(figures, "slow", "attempt, server running a tenth of the time", train_beside_a_slow_one(trainer, server), p50);
  train(trainer, 1s);

  if (own_network) {
    set_loopback(false);
    report(figures, "black_hole", "attempt, packets vanish", train(trainer, 4s), p50);
    set_loopback(true);
    train(trainer, 1s);
  }

  server.kill_now();
  report(figures, "killed", "attempt, server killed", train(trainer, 4s), p50);
  server.restart();
  report(figures, "restarted", "attempt, server back, client resending", train(trainer, 4s), p50);

  // So many more than the server can take that the buffer fills.
  server.signal(SIGSTOP);
  Samples full;
  for (int i = 0; i < 6000; ++i) {
    const std::uint64_t begin = ticks();
    trainer.attempt();
    full.add(ticks() - begin);
    if (i % 4 == 0) std::this_thread::sleep_for(1ms);
  }
  report(figures, "full", "attempt, buffer full and thinning", std::move(full), p50);
  server.signal(SIGCONT);

  fence(server.address());
  report(figures, "fenced", "attempt, fenced by a newer start of the rank", train(trainer, 4s), p50);
  trainer.monitor().close(0);
  out_of_quota(figures, p50);
}

}  // namespace scalewatch::bench
