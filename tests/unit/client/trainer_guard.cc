#include "tests/unit/client/trainer_guard.h"

#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#define PR_SYS_DISPATCH_OFF 0
#define PR_SYS_DISPATCH_ON 1
#endif

namespace {

constexpr char kAllow = 0;
constexpr char kBlock = 1;

thread_local bool watched = false;
thread_local bool paused = false;
// Of the watched thread.
struct {
  std::uint64_t allocations = 0;
  std::uint64_t locks = 0;
  volatile std::uint64_t system_calls = 0;
  volatile long last_system_call = -1;
} seen;
volatile char selector = kAllow;

void count_allocation() {
  if (watched) ++seen.allocations;
}
void count_lock() {
  if (watched) ++seen.locks;
}

// The function that the one here stands in front of.
template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

// The kernel says which call the watched thread was about to make. It is let through: made here in its place.
void on_sigsys(int /*signal*/, siginfo_t* info, void* context) {
  selector = kAllow;
  seen.system_calls = seen.system_calls + 1;
  seen.last_system_call = info->si_syscall;
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const long result = syscall(info->si_syscall, registers[REG_RDI], registers[REG_RSI], registers[REG_RDX], registers[REG_R10],
                              registers[REG_R8], registers[REG_R9]);
  registers[REG_RAX] = result < 0 ? -errno : result;
  // Stays open: returning from here is a system call itself. The next begin() closes it again; one was enough to tell.
}

}  // namespace

// glibc's own allocator under the names that it exports for those who stand in for it.
extern "C" {
void* __libc_malloc(std::size_t size);
void __libc_free(void* memory);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* memory, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);

void* malloc(std::size_t size) noexcept {
  count_allocation();
  return __libc_malloc(size);
}
void free(void* memory) noexcept {
  if (memory != nullptr) count_allocation();
  __libc_free(memory);
}
void* calloc(std::size_t count, std::size_t size) noexcept {
  count_allocation();
  return __libc_calloc(count, size);
}
void* realloc(void* memory, std::size_t size) noexcept {
  count_allocation();
  return __libc_realloc(memory, size);
}
void* memalign(std::size_t alignment, std::size_t size) noexcept {
  count_allocation();
  return __libc_memalign(alignment, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  count_allocation();
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** out, std::size_t alignment, std::size_t size) noexcept {
  count_allocation();
  *out = __libc_memalign(alignment, size);
  return *out == nullptr ? ENOMEM : 0;
}

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  static auto* const real = next<int(pthread_mutex_t*)>("pthread_mutex_lock");
  count_lock();
  return real(mutex);
}
int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept {
  static auto* const real = next<int(pthread_mutex_t*)>("pthread_mutex_trylock");
  count_lock();
  return real(mutex);
}
int pthread_cond_signal(pthread_cond_t* condition) noexcept {
  static auto* const real = next<int(pthread_cond_t*)>("pthread_cond_signal");
  count_lock();
  return real(condition);
}
int pthread_cond_broadcast(pthread_cond_t* condition) noexcept {
  static auto* const real = next<int(pthread_cond_t*)>("pthread_cond_broadcast");
  count_lock();
  return real(condition);
}
}

namespace scalewatch::client_test {

TrainerGuard::TrainerGuard() {
  struct sigaction action = {};
  action.sa_sigaction = on_sigsys;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSYS, &action, nullptr);
  selector = kAllow;
  seen.allocations = 0;
  seen.locks = 0;
  seen.system_calls = 0;
  seen.last_system_call = -1;
  if (prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0, 0, &selector) != 0) {
    throw std::system_error(errno, std::generic_category(), "syscall user dispatch");
  }
  watched = true;
  selector = kBlock;
}

TrainerGuard::~TrainerGuard() {
  selector = kAllow;
  watched = false;
  prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_OFF, 0, 0, 0);
}

void TrainerGuard::pause() {
  if (!watched) return;
  watched = false;
  paused = true;
  selector = kAllow;
}

void TrainerGuard::resume() {
  if (!paused) return;
  paused = false;
  watched = true;
  if (seen.system_calls == 0) selector = kBlock;
}

std::uint64_t TrainerGuard::allocations() const {
  return seen.allocations;
}
std::uint64_t TrainerGuard::locks() const {
  return seen.locks;
}
std::uint64_t TrainerGuard::system_calls() const {
  return seen.system_calls;
}
long TrainerGuard::last_system_call() const {
  return seen.last_system_call;
}

}  // namespace scalewatch::client_test
