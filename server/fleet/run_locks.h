// A lock for each run, by its name, for as long as somebody holds it or waits for it. Thread-safe.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace scalewatch::fleet {

class RunLocks {
  struct Lock {
    std::mutex mutex;
    int users = 0;  // under RunLocks::mutex_
  };
  using Locks = std::map<std::string, Lock>;

 public:
  // Whoever holds a run's lock.
  class Holder {
   public:
    Holder(RunLocks& all, Locks::iterator lock) : all_(all), lock_(lock) { lock_->second.mutex.lock(); }
    ~Holder() {
      lock_->second.mutex.unlock();
      all_.leave(lock_);
    }
    Holder(const Holder&) = delete;
    Holder& operator=(const Holder&) = delete;

   private:
    RunLocks& all_;
    const Locks::iterator lock_;
  };

  // Waits for it.
  [[nodiscard]] Holder hold(const std::string& run) { return {*this, enter(run)}; }

 private:
  Locks::iterator enter(const std::string& run) {
    const std::lock_guard lock(mutex_);
    const auto found = locks_.try_emplace(run).first;
    ++found->second.users;
    return found;
  }
  void leave(Locks::iterator lock) {
    const std::lock_guard guard(mutex_);
    if (--lock->second.users == 0) locks_.erase(lock);
  }

  std::mutex mutex_;
  Locks locks_;
};

}  // namespace scalewatch::fleet
