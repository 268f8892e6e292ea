// A small pool of read-only connections to the history file. Thread-safe.
//
// A lease holds one read transaction: a view of one moment. It must be short, for the write-ahead log can't be cut while it
// lasts; SQL that runs past its time fails as retryable. Long reads take one lease a page and go on by key. What the engine
// needs in order to start or to take a rank in is read whole, whatever it takes: those rows are small.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "server/history/sqlite.h"

namespace scalewatch::history {

class ReadPool {
 public:
  ReadPool(std::string path, std::size_t connections, std::chrono::milliseconds transaction);

  enum class Limit : std::uint8_t { kTimed, kNone };

  class Lease {
   public:
    // Waits for a free connection at most a few seconds, then throws a retryable StoreError.
    explicit Lease(ReadPool& pool, Limit limit = Limit::kTimed);
    ~Lease();
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

    Connection& operator*() { return *connection_; }
    // Half of the transaction's time is over: a page ends here.
    [[nodiscard]] bool page_over() const { return std::chrono::steady_clock::now() > page_end_; }

   private:
    ReadPool& pool_;
    std::unique_ptr<Connection> connection_;
    std::chrono::steady_clock::time_point page_end_;
  };

  // Pages of the file that leases asked for, by where they were; cumulative.
  struct CacheReads {
    std::uint64_t hits = 0;
    std::uint64_t misses = 0;
  };
  [[nodiscard]] CacheReads cache_reads() const { return {cache_hits_, cache_misses_}; }

 private:
  std::unique_ptr<Connection> take();
  void count_cache(const Connection& connection);
  void give_back(std::unique_ptr<Connection> connection);

  const std::string path_;
  const std::size_t limit_;
  const std::chrono::milliseconds transaction_;
  std::mutex mutex_;
  std::condition_variable freed_;
  std::vector<std::unique_ptr<Connection>> idle_;
  std::size_t open_ = 0;
  std::atomic<std::uint64_t> cache_hits_{0};
  std::atomic<std::uint64_t> cache_misses_{0};
};

}  // namespace scalewatch::history
