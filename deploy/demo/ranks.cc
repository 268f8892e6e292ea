#include "deploy/demo/ranks.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <exception>
#include <new>
#include <stdexcept>
#include <system_error>

namespace scalewatch::demo {

// At the front of the shared memory; after it one flag a rank, then each rank's gradients.
struct RankGroup::Shared {
  pthread_barrier_t barrier;
};

RankGroup::RankGroup(std::uint32_t ranks, std::size_t elements) : ranks_(ranks), elements_(elements) {
  if (ranks_ == 0) throw std::invalid_argument("a group needs at least one rank");
  if (ranks_ == 1) return;
  flags_at_ = sizeof(Shared);
  gradients_at_ = (flags_at_ + ranks_ + 63) / 64 * 64;
  bytes_ = gradients_at_ + ranks_ * elements_ * sizeof(Half);
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw std::runtime_error("no shared memory for the gradients: " + std::generic_category().message(errno));
  }
  shared_ = new (memory) Shared{};
  pthread_barrierattr_t attributes;
  pthread_barrierattr_init(&attributes);
  pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(&shared_->barrier, &attributes, ranks_);
  pthread_barrierattr_destroy(&attributes);
}

RankGroup::~RankGroup() {
  // Every process drops its own view; the barrier goes with the last one.
  if (shared_ != nullptr) munmap(shared_, bytes_);
}

Half* RankGroup::gradients(std::uint32_t rank) {
  return reinterpret_cast<Half*>(reinterpret_cast<std::byte*>(shared_) + gradients_at_) + rank * elements_;
}

void RankGroup::wait() {
  pthread_barrier_wait(&shared_->barrier);
}

void RankGroup::average(std::uint32_t rank, std::span<const std::span<Half>> tensors) {
  if (shared_ == nullptr) return;
  const auto share = static_cast<Half>(1.0F / static_cast<float>(ranks_));
  Half* mine = gradients(rank);
  std::size_t at = 0;
  for (const auto& tensor : tensors) {
    if (at + tensor.size() > elements_) throw std::invalid_argument("more gradients than the group was made for");
    std::copy(tensor.begin(), tensor.end(), mine + at);
    multiply_in_place({mine + at, tensor.size()}, share);
    at += tensor.size();
  }
  wait();
  at = 0;
  for (const auto& tensor : tensors) {
    std::copy_n(gradients(0) + at, tensor.size(), tensor.begin());
    for (std::uint32_t other = 1; other < ranks_; ++other) add_in_place(tensor, {gradients(other) + at, tensor.size()});
    at += tensor.size();
  }
  wait();  // until everybody has read
}

bool RankGroup::any(std::uint32_t rank, bool stop) {
  if (shared_ == nullptr) return stop;
  auto* flags = reinterpret_cast<char*>(shared_) + flags_at_;
  flags[rank] = stop ? 1 : 0;
  wait();
  const bool found = std::find(flags, flags + ranks_, 1) != flags + ranks_;
  wait();
  return found;
}

namespace {

constexpr timespec kTick{0, 200'000'000};
constexpr int kGraceTicks = 5;

class Launcher {
 public:
  explicit Launcher(std::uint32_t ranks) : pids_(ranks, 0) {
    sigemptyset(&signals_);
    for (const int signal : {SIGINT, SIGTERM, SIGCHLD}) sigaddset(&signals_, signal);
    pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  }
  ~Launcher() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  void start(std::uint32_t rank, const std::function<int(std::uint32_t)>& body) {
    std::fflush(nullptr);
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid < 0)
      throw std::runtime_error("cannot fork rank " + std::to_string(rank) + ": " + std::generic_category().message(errno));
    if (pid > 0) {
      pids_[rank] = pid;
      return;
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    int status = 1;
    try {
      if (getppid() == parent) status = body(rank);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "rank %u: %s\n", rank, error.what());
    }
    std::fflush(nullptr);
    _exit(status);
  }

  int wait() {
    int first_bad = 0;
    int ticks = 0;  // since a rank ended badly
    while (alive()) {
      // Ranks are looked at every tick as well: another thread of this process may have eaten the SIGCHLD.
      const int signal = sigtimedwait(&signals_, nullptr, &kTick);
      if (signal == SIGINT || signal == SIGTERM) send(SIGTERM);
      if (first_bad != 0 && signal < 0 && ++ticks == kGraceTicks) send(SIGKILL);
      for (pid_t& pid : pids_) {
        int status = 0;
        if (pid == 0 || waitpid(pid, &status, WNOHANG) != pid) continue;
        pid = 0;
        const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        if (code != 0 && first_bad == 0) {
          first_bad = code;
          send(SIGTERM);
        }
      }
    }
    return first_bad;
  }

  void send(int signal) const {
    for (const pid_t pid : pids_) {
      if (pid > 0) kill(pid, signal);
    }
  }

 private:
  [[nodiscard]] bool alive() const {
    return std::any_of(pids_.begin(), pids_.end(), [](pid_t pid) { return pid > 0; });
  }

  std::vector<pid_t> pids_;
  sigset_t signals_{};
  sigset_t before_{};
};

}  // namespace

int run_ranks(std::uint32_t ranks, const std::function<int(std::uint32_t rank)>& body) {
  if (ranks == 1) return body(0);
  Launcher launcher(ranks);
  try {
    for (std::uint32_t rank = 0; rank < ranks; ++rank) launcher.start(rank, body);
  } catch (...) {
    launcher.send(SIGKILL);
    launcher.wait();
    throw;
  }
  return launcher.wait();
}

}  // namespace scalewatch::demo
