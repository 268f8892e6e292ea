#include "cuda/cpu/workers.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "cuda/cpu/parts.h"

namespace scalewatch {
namespace {

// One measurement's parts. Whoever is free takes the next.
struct Job {
  std::size_t parts;
  void (*body)(void* context, std::size_t part);
  void* context;
  std::atomic<std::size_t> next{0};

  void work() noexcept {
    while (true) {
      const std::size_t part = next.fetch_add(1, std::memory_order_relaxed);
      if (part >= parts) return;
      body(context, part);
    }
  }
};

}  // namespace

struct Workers::Crew {
  explicit Crew(unsigned threads) : states(cpu::kMaxParts) {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    others.reserve(threads - 1);
    try {
      while (others.size() + 1 < threads) others.emplace_back([this] { serve(); });
    } catch (const std::system_error&) {
      // The system gives no more threads: those that are there do.
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  ~Crew() {
    {
      const std::lock_guard lock(mutex);
      stop = true;
    }
    wake.notify_all();
    for (std::thread& thread : others) thread.join();
  }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  void serve() noexcept {
    pthread_setname_np(pthread_self(), "scalewatch-cpu");
    std::uint64_t seen = 0;
    std::unique_lock lock(mutex);
    while (true) {
      wake.wait(lock, [&] { return stop || (job != nullptr && job_number != seen); });
      if (stop) return;
      seen = job_number;
      Job& mine = *job;
      ++active;  // the job outlives it
      lock.unlock();
      mine.work();
      lock.lock();
      if (--active == 0) done.notify_one();
    }
  }

  const pid_t pid = getpid();
  std::vector<cpu::State> states;
  std::atomic_flag taken;  // by a lease
  std::mutex mutex;        // guards the rest
  std::condition_variable wake;
  std::condition_variable done;
  Job* job = nullptr;
  std::uint64_t job_number = 0;
  std::size_t active = 0;
  bool stop = false;
  std::vector<std::thread> others;
};

Workers::Workers(unsigned threads) : crew_(std::make_unique<Crew>(std::clamp(threads, 1U, kMaxThreads))) {}

Workers::~Workers() {
  // In a forked child nobody can be joined or woken, and what they waited on can't be destroyed: its memory stays.
  if (crew_->pid != getpid()) static_cast<void>(crew_.release());
}

unsigned Workers::threads() const noexcept {
  return static_cast<unsigned>(crew_->others.size()) + 1;
}

WorkersLease::WorkersLease(Workers* workers) noexcept {
  if (workers == nullptr || workers->crew_->others.empty() || workers->crew_->pid != getpid()) return;
  if (!workers->crew_->taken.test_and_set(std::memory_order_acquire)) crew_ = workers->crew_.get();
}

WorkersLease::~WorkersLease() {
  if (crew_ != nullptr) crew_->taken.clear(std::memory_order_release);
}

cpu::State* WorkersLease::states() const noexcept {
  return crew_->states.data();
}

void WorkersLease::run(std::size_t parts, void (*body)(void* context, std::size_t part), void* context) const noexcept {
  Job job{parts, body, context};
  {
    const std::lock_guard lock(crew_->mutex);
    crew_->job = &job;
    ++crew_->job_number;
  }
  crew_->wake.notify_all();
  job.work();
  std::unique_lock lock(crew_->mutex);
  crew_->job = nullptr;  // who wakes only now finds nothing
  crew_->done.wait(lock, [&] { return crew_->active == 0; });
}

}  // namespace scalewatch
