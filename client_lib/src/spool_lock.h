// Says that a process lives and owns a folder of the spool.
//
// An open file description lock (F_OFD_SETLK): it also conflicts within one process, between two monitors or two copies of
// the library, and no stray close() of the same file ends it, as with fcntl's older kind. Like flock it would be shared with
// forked children, and a data-loader worker that outlives its trainer would keep the trainer's spool from the next start. So
// children close their copy in a handler of pthread_atfork; a child made by a bare clone() has none and keeps the lock until it
// ends or calls exec. That errs on the safe side: the spool waits for a later start. The kernel ends the lock with the process,
// however it dies.
#pragma once

#include <sys/types.h>

namespace scalewatch::client {

class SpoolLock {
 public:
  enum class Outcome {
    kHeld,
    kBusy,    // somebody living holds it
    kGone,    // there is no such file (any more)
    kFailed,  // errno says why
  };

  SpoolLock() = default;
  SpoolLock(SpoolLock&& other) noexcept;
  SpoolLock& operator=(SpoolLock&& other) noexcept;
  ~SpoolLock() { release(); }

  // Never waits for the lock; waits up to 0.1 s for a fork that is under way on another thread. create makes the file.
  Outcome take(int directory, const char* name, bool create);
  // This process holds it; false in a forked child.
  [[nodiscard]] bool held() const;
  // Does nothing in a forked child.
  void release();

 private:
  int slot_ = -1;
  pid_t owner_ = 0;
};

}  // namespace scalewatch::client
