#include "client_lib/src/spool_lock.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <thread>
#include <utility>

namespace scalewatch::client {
namespace {

// What a child has to close: descriptor + 1, 0 = free. All are plain atomics: the handler runs where almost nothing is allowed.
constinit std::array<std::atomic<int>, 64> slots{};
// Forks that began and that are over, so that a lock file is never opened while one copies the descriptors.
constinit std::atomic<unsigned> forks_begun{0};
constinit std::atomic<unsigned> forks_over{0};

void before_fork() {
  forks_begun.fetch_add(1);
}
void after_fork_in_parent() {
  forks_over.fetch_add(1);
}
void after_fork_in_child() {
  forks_over.store(forks_begun.load());
  for (std::atomic<int>& slot : slots) {
    if (const int descriptor = slot.exchange(0) - 1; descriptor >= 0) close(descriptor);
  }
}

int take_slot(int descriptor) {
  for (std::size_t i = 0; i < slots.size(); ++i) {
    int free = 0;
    if (slots[i].compare_exchange_strong(free, descriptor + 1)) return static_cast<int>(i);
  }
  errno = EMFILE;
  return -1;
}

int descriptor_in(int slot) {
  return slots[static_cast<std::size_t>(slot)].load() - 1;
}

void close_slot(int slot) {
  const int descriptor = descriptor_in(slot);
  slots[static_cast<std::size_t>(slot)].store(0);
  const int kept = errno;
  close(descriptor);
  errno = kept;
}

bool set(int descriptor, short type) {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return fcntl(descriptor, F_OFD_SETLK, &lock) == 0;
}

// A slot with an open file that no child shares; -1: errno.
int open_unshared(int directory, const char* name, int flags) {
  for (int tries = 0; tries < 100; ++tries) {
    const unsigned begun = forks_begun.load();
    if (forks_over.load() == begun) {
      const int descriptor = openat(directory, name, flags, 0600);
      if (descriptor < 0) return -1;
      const int slot = take_slot(descriptor);
      if (slot < 0) {
        close(descriptor);
        return -1;
      }
      if (forks_begun.load() == begun) return slot;
      close_slot(slot);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  errno = EAGAIN;
  return -1;
}

}  // namespace

SpoolLock::SpoolLock(SpoolLock&& other) noexcept : slot_(std::exchange(other.slot_, -1)), owner_(other.owner_) {}

SpoolLock& SpoolLock::operator=(SpoolLock&& other) noexcept {
  if (this == &other) return *this;
  release();
  slot_ = std::exchange(other.slot_, -1);
  owner_ = other.owner_;
  return *this;
}

SpoolLock::Outcome SpoolLock::take(int directory, const char* name, bool create) {
  release();
  static const int registered = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  if (registered != 0) {
    errno = registered;
    return Outcome::kFailed;
  }
  const int slot = open_unshared(directory, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (create ? O_CREAT : 0));
  if (slot < 0) return errno == ENOENT ? Outcome::kGone : Outcome::kFailed;
  struct stat about = {};
  Outcome outcome = Outcome::kHeld;
  if (!set(descriptor_in(slot), F_WRLCK)) {
    outcome = errno == EAGAIN || errno == EACCES ? Outcome::kBusy : Outcome::kFailed;
  } else if (fstat(descriptor_in(slot), &about) != 0 || about.st_nlink == 0) {
    outcome = Outcome::kGone;  // who held it before has deleted the folder
  }
  if (outcome == Outcome::kHeld) {
    slot_ = slot;
    owner_ = getpid();
  } else {
    close_slot(slot);
  }
  return outcome;
}

bool SpoolLock::held() const {
  return slot_ >= 0 && owner_ == getpid();
}

void SpoolLock::release() {
  if (held()) {
    // Ended by hand: a child that is being forked right now may still have a copy of the descriptor.
    set(descriptor_in(slot_), F_UNLCK);
    close_slot(slot_);
  }
  slot_ = -1;
}

}  // namespace scalewatch::client
