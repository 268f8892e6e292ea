#include <signal.h>

#include <cstdio>
#include <mutex>

#include "tests/simt/harness/machine.h"

namespace simt {
namespace {

Machine& machine() {
  static auto* const only = new Machine;  // its fibers must outlive static destructors
  return *only;
}

void on_signal(int number, siginfo_t* info, void* /*context*/) {
  const Thread* const thread = machine().running();
  if (thread == nullptr || !machine().runs_here()) {  // not a kernel's doing
    signal(number, SIG_DFL);
    return;
  }
  char text[200];
  if (number == SIGSEGV || number == SIGBUS) {
    std::snprintf(text, sizeof text, "access to %p, which is no memory of the device or only for reading", info->si_addr);
  } else if (number == SIGFPE) {
    std::snprintf(text, sizeof text, "division by zero");
  } else {
    std::snprintf(text, sizeof text, "undefined behaviour: misaligned access, index, shift or signed overflow");
  }
  char last[400];
  std::snprintf(last, sizeof last, "%s; before it the thread was here", text);
  machine().break_off(explain(*thread, last));
}

// Turns the signals of wild accesses into faults while a launch runs.
class Signals {
 public:
  Signals() {
    struct sigaction action = {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;  // the handler never returns: it leaves the fiber for good
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < 4; ++i) sigaction(kNumbers[i], &action, &before_[i]);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  ~Signals() {
    for (int i = 0; i < 4; ++i) sigaction(kNumbers[i], &before_[i], nullptr);
  }

 private:
  static constexpr int kNumbers[4] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
  struct sigaction before_[4];
};

}  // namespace

Result launch(const Kernel& kernel, Dim3 grid, Dim3 block, std::size_t shared_bytes, void** params, const Options& options) {
  static std::mutex turns;
  const std::lock_guard lock(turns);
  const std::lock_guard memory(regions_mutex());
  const Signals signals;
  return machine().run(kernel, grid, block, shared_bytes, params, options);
}

std::uint64_t meet(Op op, std::uint32_t mask, std::uint64_t value, std::uint32_t argument, std::uint32_t width, Site site) {
  return machine().wait({op, mask, value, argument, width, site});
}

void step() {
  machine().step();
}

void fail(const char* message, Site site) {
  Thread& thread = *machine().running();
  thread.request.site = site;
  char text[400];
  std::snprintf(text, sizeof text, "block %u thread %u at %.120s:%u: %.200s", thread.indices.block.x, thread.number,
                site.file_name(), site.line(), message);
  machine().break_off(text);
}

void check_access(const void* address, std::size_t bytes, std::size_t alignment, Access access, Site site) {
  const char* wrong = machine().find_fault(address, bytes, alignment, access);
  if (wrong == nullptr) return;
  const bool writes = access == Access::kStore || access == Access::kAtomic;
  char text[300];
  std::snprintf(text, sizeof text, "%s: %s of %zu bytes at %p", wrong, writes ? "store" : "load", bytes, address);
  fail(text, site);
}

void* dynamic_shared() {
  return machine().dynamic_shared();
}
std::size_t dynamic_shared_bytes() {
  return machine().dynamic_bytes();
}

}  // namespace simt
