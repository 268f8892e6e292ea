// The machine that runs a launch: its threads' fibers and the order in which they go on. Internal to the harness.
#pragma once

#include <pthread.h>

#include <boost/context/fiber.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/simt/harness/block.h"
#include "tests/simt/harness/module.h"
#include "tests/simt/harness/regions.h"
#include "tests/simt/harness/simt.h"
#include "tests/simt/harness/stack.h"

namespace simt {

// A fiber runs one thread after the other, for as long as no launch is broken off.
struct Worker {
  Stack stack;
  Thread thread;
};

// Runs one launch at a time.
class Machine {
 public:
  // As launch(). The caller holds the device memory's mutex and has the signals of wild accesses turned here.
  Result run(const Kernel& kernel, Dim3 grid, Dim3 block, std::size_t shared_bytes, void** params, const Options& options);

  // The rest is for the running thread.

  // Meets others; gives this thread's result.
  std::uint64_t wait(const Request& request);
  // Another thread may go on here.
  void step();
  // Ends the launch.
  [[noreturn]] void break_off(const char* text);
  // What is wrong with an access; null: nothing.
  [[nodiscard]] const char* find_fault(const void* address, std::size_t bytes, std::size_t alignment, Access access);
  [[nodiscard]] Thread* running() const { return running_; }
  [[nodiscard]] bool runs_here() const { return pthread_equal(os_thread_, pthread_self()) != 0; }
  [[nodiscard]] void* dynamic_shared() const { return active_->dynamic; }
  [[nodiscard]] std::size_t dynamic_bytes() const { return dynamic_bytes_; }

 private:
  // A place for a block among those that run at the same time.
  struct Slot {
    Block block;
    std::unique_ptr<std::byte[]> dynamic_memory;
    bool busy = false;
  };

  void prepare(unsigned resident, unsigned threads);
  void start(Slot& slot, std::uint64_t block_number);
  void activate(Block& block);
  void turn(Slot& slot);
  void resume(Thread& thread);
  void suspend();
  void abandon();
  void body(boost::context::fiber&& main, Worker& worker);
  [[nodiscard]] std::size_t pick(std::size_t count, Order order) {
    if (order == Order::kShuffled) return std::uniform_int_distribution<std::size_t>(0, count - 1)(random_);
    return 0;
  }

  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::unique_ptr<Slot>> slots_;
  boost::context::fiber main_;
  Thread* running_ = nullptr;
  pthread_t os_thread_{};  // of the launch
  Block* active_ = nullptr;
  std::map<std::uintptr_t, Region>::iterator region_;  // the last one accessed
  std::uint64_t launch_ = 0;                           // counts up
  SharedStorage storage_;
  std::size_t dynamic_bytes_ = 0;

  const Kernel* kernel_ = nullptr;
  void** params_ = nullptr;
  Dim3 grid_;
  Dim3 block_dim_;
  Options options_;
  std::mt19937_64 random_;
  std::uint64_t steps_ = 0;
  std::string fault_;
};

}  // namespace simt
