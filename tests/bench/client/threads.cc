// Processor time of every thread but the trainer's at 1,000 tensors and 10 attempts a second, and memory with no server.
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/bench/client/parts.h"
#include "tests/bench/client/trainer.h"
#include "tests/bench/support/server_process.h"

namespace scalewatch::bench {
namespace {

using namespace std::chrono_literals;

// CPU seconds of this process's threads but the calling one.
double other_threads_seconds() {
  double seconds = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == std::to_string(gettid())) continue;
    std::ifstream file(task.path() / "schedstat");  // ns on a processor, first
    double ns = 0;
    if (file >> ns) seconds += ns / 1e9;
  }
  return seconds;
}

double resident_mib() {
  std::ifstream file("/proc/self/statm");
  double pages = 0;
  file >> pages >> pages;
  return pages * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

}  // namespace

void bench_threads(Figures& figures) {
  {
    const ServerProcess server;
    Trainer trainer(server.address());
    trainer.attempt();
    trainer.monitor().wait_durable(20'000);
    const double before = other_threads_seconds();
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 1; i <= 100; ++i) {
      trainer.attempt();
      std::this_thread::sleep_until(begin + i * 100ms);
    }
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    const double used = other_threads_seconds() - before;
    figures.push_back({"background_percent", "client's and gRPC's threads, 1,000 tensors x 10/s", 100 * used / time.count(),
                       "% of a core", "5 %"});
    trainer.monitor().close(5000);
  }
  {
    Trainer trainer("127.0.0.1:1");
    for (int i = 0; i < 20; ++i) trainer.attempt();
    const double before = resident_mib();
    for (int i = 0; i < 20'000; ++i) {
      trainer.attempt();
      if (i % 20 == 0) std::this_thread::sleep_for(10ms);
    }
    figures.push_back({"memory_mib", "memory taken by 20 million records, no server, 64 MiB configured",
                       resident_mib() - before, "MiB", "64 MiB and what the heap adds"});
    trainer.monitor().close(0);
  }
}

}  // namespace scalewatch::bench
