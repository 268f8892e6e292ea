// Trainers that fork workers.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <vector>

#include "tests/unit/client/lifetime_trainer.h"

namespace scalewatch::client_test {
namespace {

// Calls everything that a child has in its hands; how many calls did anything else than refuse.
int calls_not_refused(scalewatch_monitor* monitor) {
  const float data[2] = {1, 2};
  const std::uint64_t sizes[1] = {2};
  const std::int64_t strides[1] = {1};
  scalewatch_stats stats{};
  stats.size = sizeof stats;
  scalewatch_record record{};
  record.size = sizeof record;
  scalewatch_optimizer optimizer{};
  optimizer.size = sizeof optimizer;
  scalewatch_tensor tensor{};
  tensor.size = sizeof tensor;
  tensor.name = "child";
  tensor.role = SCALEWATCH_GRADIENT;
  tensor.dtype = SCALEWATCH_FP32;
  scalewatch_sampling sampling{};
  sampling.size = sizeof sampling;
  int wanted = 0;
  scalewatch_options own{};
  own.size = sizeof own;
  own.run = "child";
  scalewatch_monitor* opened = nullptr;
  const int statuses[] = {
      scalewatch_begin_attempt(monitor, 1),
      scalewatch_observe(monitor, 0, data, 2, 1, 0),
      scalewatch_observe_strided(monitor, 0, data, 1, sizes, strides, 1, 0),
      scalewatch_observe_record(monitor, 0, &record, 1, 0),
      scalewatch_observe_scaler(monitor, 0, 1, 1, 0, -1),
      scalewatch_observe_optimizer(monitor, 0, 0, 0, 0, SCALEWATCH_APPLIED),
      scalewatch_set_loss(monitor, 1),
      scalewatch_set_lr(monitor, 1),
      scalewatch_set_grad_norm(monitor, 1, 0, 0),
      scalewatch_set_input_non_finite(monitor, 1),
      scalewatch_set_phase(monitor, SCALEWATCH_EVAL),
      scalewatch_misuse(monitor, "child", nullptr, 0),
      scalewatch_end_attempt(monitor),
      scalewatch_add_scaler(monitor, "child", "none", nullptr, 0, nullptr),
      scalewatch_add_optimizer(monitor, &optimizer, nullptr),
      scalewatch_add_tensor(monitor, &tensor, nullptr),
      scalewatch_add_sampling(monitor, &sampling),
      scalewatch_wants(monitor, 0, &wanted),
      scalewatch_get_stats(monitor, &stats),
      scalewatch_wait_durable(monitor, kLongMs),
      scalewatch_open(&own, &opened),
      scalewatch_close(monitor, kLongMs, nullptr),
  };
  return static_cast<int>(
      std::count_if(std::begin(statuses), std::end(statuses), [](int status) { return status != SCALEWATCH_FORKED; }));
}

// The four ways in which workers end. A bad count becomes the exit status.
[[noreturn]] void end_worker(int way, int bad) {
  if (bad == 0 && way == 2) execl("/bin/true", "true", nullptr);
  if (way == 1) _exit(bad);
  if (way == 3) std::quick_exit(bad);
  std::exit(bad);
}

}  // namespace

int fork_workers() {
  static Monitor monitor(options());  // its destructor runs in the children too
  std::vector<pid_t> children;
  const auto fork_one = [&] {
    const auto way = static_cast<int>(children.size() % 4);
    const pid_t child = fork();
    if (child == 0) end_worker(way, calls_not_refused(monitor.handle()));
    children.push_back(child);
  };
  fork_one();  // nothing was started yet
  for (int i = 0; i < 8; ++i) {
    monitor.begin_attempt(i);
    if (i % 2 == 0) fork_one();
    monitor.set_loss(i);
    monitor.end_attempt();
    if (i % 2 == 1) fork_one();
  }
  // A worker of a worker.
  const pid_t worker = fork();
  if (worker == 0) {
    const pid_t grandchild = fork();
    if (grandchild == 0) _exit(calls_not_refused(monitor.handle()));
    int status = 0;
    waitpid(grandchild, &status, 0);
    std::exit(status == 0 ? 0 : 1);
  }
  children.push_back(worker);
  for (const pid_t child : children) {
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0) return 1;
  }
  attempts(monitor, 2);
  return monitor.close(kLongMs) ? 0 : 2;
}

int open_in_child() {
  for (const char* run : {"one", "two"}) {
    const pid_t child = fork();
    if (child == 0) {
      Monitor monitor(options(run));
      attempts(monitor, 2);
      std::exit(monitor.close(kLongMs) ? 0 : 1);
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0) return 1;
  }
  return 0;
}

int outlived(const std::function<void()>& end_trainer) {
  Monitor& monitor = start();
  int alive[2];
  if (pipe(alive) != 0) return 1;
  if (fork() == 0) {
    close(alive[1]);
    char byte = 0;
    while (read(alive[0], &byte, 1) > 0) {
    }
    say(calls_not_refused(monitor.handle()) == 0 ? "worker refused" : "worker was let in");
    std::exit(0);
  }
  end_trainer();
  return 0;
}

}  // namespace scalewatch::client_test
