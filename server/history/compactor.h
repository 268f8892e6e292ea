// Turns reports into tensor-major chunks, on a thread of its own, behind the commits.
//
// Once a stream has enough reports that are not in chunks, they become a stretch: first its chunks are written, in small
// transactions, then in one more the rows that make them visible; a kill in between leaves chunks that nothing names, which the
// next start removes. The payloads of a stretch go when the next one of the stream is there, so that the newest attempts can be
// read whole; those with non-finite tensors or where a finding began stay longer.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "server/history/sqlite.h"
#include "server/history/stretch.h"
#include "server/history/write_gate.h"

namespace scalewatch::history {

struct CompactionOptions {
  bool enabled = true;
  bool thread = true;  // false: only run_now() works
  // A stream that brings nothing for this long: what it has becomes chunks, and its payloads go.
  std::chrono::milliseconds idle_after{600'000};
};

struct CompactionStats {
  std::uint64_t stretches = 0;
  std::uint64_t records = 0;
  std::uint64_t waiting_reports = 0;  // now: in stretches that are due
  double seconds = 0;                 // of the thread, waiting for its turn included
};

class Compactor {
 public:
  // Runs `work` in one transaction of the write connection when it is the turn of its class. Throws StoreError.
  using Write = std::function<void(WriteClass which, const std::function<void(Connection&)>& work)>;

  // What is done when nothing waits to be compacted did something; then it is called again.
  enum class Idle : std::uint8_t { kNothing, kSomething, kRunGone };
  using IdleWork = std::function<Idle(bool everything)>;

  Compactor(const std::string& path, const CompactionOptions& options, Write write, IdleWork idle = {});
  ~Compactor();
  Compactor(const Compactor&) = delete;
  Compactor& operator=(const Compactor&) = delete;

  // New reports by streams.id. Thread-safe; cheap.
  void reported(const std::map<std::int64_t, std::size_t>& reports);
  // Whether payloads stay until the shared history has them: they are read back for it much faster than chunks are. Any thread.
  void keep_unsent(bool keep) { keep_unsent_ = keep; }
  // Compacts what is due and returns; `everything`: as if every stream were idle. Only without a thread.
  void run_now(bool everything);
  [[nodiscard]] CompactionStats stats() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Stream {
    std::uint64_t waiting = 0;   // reports that are not in a stretch, roughly
    std::int64_t next = 0;       // number of the next stretch
    std::uint64_t last_seq = 0;  // of the newest stretch
    std::uint64_t trimmed_seq = 0;
    std::uint64_t due_seq = 0;  // payloads up to here go once they are sent
    Clock::time_point newest = Clock::now();
    bool opened = false;    // what a kill left was removed
    bool stuck = false;     // its next report can't be packed: it stays rows
    bool finished = false;  // idle, and all done
  };
  struct Home {  // of a stream
    std::int64_t run = 0;
    std::string run_uid;
    std::uint32_t segment = 0;
    std::uint32_t rank = 0;
  };

  void loop();
  // Ends the thread's work when the store closes.
  void check_stop() const;
  void load();
  // The next thing to do; false when there was nothing.
  bool step(bool everything);
  [[nodiscard]] static std::size_t wanted(std::int64_t stream, const Stream& state);
  void open_stream(std::int64_t stream, Stream& state);
  // Makes a stretch of what the stream has; unless it is idle, only when that is enough.
  void compact(std::int64_t stream, Stream& state, bool idle);
  void publish(std::int64_t stream, Stream& state, StretchBuilder& builder, const std::vector<ChunkRow>& chunks,
               const std::vector<std::int64_t>& ids, const std::vector<std::uint64_t>& seqs);
  std::vector<std::int64_t> kept(const Home& home, const StretchBuilder& builder, const std::vector<std::int64_t>& ids,
                                 const std::vector<std::uint64_t>& attempts);
  // Lets payloads of the stream up to `seq` go, and of those that wait to be sent none unless it is `idle`.
  void release(std::int64_t stream, Stream& state, std::uint64_t seq, bool idle);
  // Those that waited go once nothing is kept any more.
  void release_kept();
  void trim();
  bool idle(bool everything);
  Home home(std::int64_t stream);
  Stream& state_of(std::int64_t stream);

  const CompactionOptions options_;
  const Write write_;
  const IdleWork idle_;
  std::unique_ptr<Connection> reader_;
  std::atomic<bool> keep_unsent_{false};

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::map<std::int64_t, std::size_t> news_;  // from committers
  bool stop_ = false;
  CompactionStats stats_;

  // Of the thread alone.
  std::map<std::int64_t, Stream> streams_;
  std::vector<std::int64_t> released_;  // payloads that may go
  Clock::time_point released_since_;
  bool kept_ = false;       // keep_unsent_ when it was looked at last
  std::int64_t after_ = 0;  // the stream that was looked at last
  std::thread thread_;      // last
};

}  // namespace scalewatch::history
