// What the history lets go of, and when: by age, by size, by number of runs, and within a run by attempts. Runs that are not
// over stay, pinned ones and those in memory too. Everything is removed in small transactions behind commits and compaction,
// and a kill in between only means that the next start goes on. Not thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "server/history/sqlite.h"
#include "server/history/write_gate.h"

namespace scalewatch::history {

struct RetentionOptions {
  // Of ended runs, since their last report; 0 = never. Thinned: summaries of up to 128 attempts are left of single records.
  std::chrono::milliseconds thin_after{0};
  std::chrono::milliseconds max_age{0};
  std::uint32_t max_runs = 0;       // 0 = no limit
  std::uint64_t max_bytes = 0;      // 0 = no limit; runs are thinned, oldest first, before the oldest go
  std::uint64_t keep_attempts = 0;  // of every run, running ones too, older attempts are thinned; 0 = no limit
  std::uint64_t max_run_bytes = 0;  // of every run's chunks; the oldest attempts beyond are thinned; 0 = no limit
  std::string pinned;               // names with * and ?, separated by commas
  std::chrono::milliseconds every{60'000};
};

class Retention {
 public:
  using Write = std::function<void(WriteClass which, const std::function<void(Connection&)>& work)>;
  // `removed`: a run is gone, and ids of it mean nothing any more; runs in the transaction of the last row.
  Retention(const std::string& path, const RetentionOptions& options, Write write, std::function<void()> removed);

  // Whether what the shared history does not have yet is kept from all limits. Any thread.
  void keep_unsent(bool keep) { keep_unsent_ = keep; }
  // While it is set, the oldest records go, whatever the limits say: what waits for the shared history has outgrown its bound.
  // Any thread.
  void press(bool on) { pressed_ = on; }
  // Bytes of chunks that went for it so far. Any thread.
  [[nodiscard]] std::uint64_t pressed_out() const { return pressed_out_; }
  // What runs take of max_run_bytes, by name, as of the newest look; pinned ones have no limit. Any thread.
  [[nodiscard]] std::map<std::string, std::uint64_t, std::less<>> run_bytes() const;
  [[nodiscard]] std::uint64_t max_run_bytes() const { return options_.max_run_bytes; }  // any thread; 0 = no limit
  // How to ask whoever has runs in memory, and commits rows that refer to what is stored of them: `work`, if there is any, is
  // run, and the run is taken up only afterwards; false, and nothing is done, when it is held.
  using UnlessHeld = std::function<bool(const std::string& name, const std::function<void()>& work)>;
  // Whoever knows open alerts of a run that would be removed now has them resolved: true, and the run stays until then.
  using EndAlerts = std::function<bool(const std::string& uid)>;
  // From now on what is held stays, also when a run is taken up again while it is removed; {}: nobody holds any. No call of
  // those before is under way once this returns. Any thread.
  void set_holder(UnlessHeld unless_held, EndAlerts end_alerts = {});
  // Whether the shared history does not have a run's row and alerts as they are: the run stays until it does, for nobody else
  // tells it that the run ended. {}: it has. No call of the one before is under way once this returns. Any thread.
  using RowWaits = std::function<bool(const std::string& uid)>;
  void set_row_waits(RowWaits row_waits);
  // The run comes back because somebody asks about it. It stays for an hour, whatever the limits say, for each question would
  // bring it anew; of many the last hundred do. Any thread.
  void comes_back(const std::string& uid);
  // Removes a run whatever the limits say, with all that is of it but its outbox: what sinks are owed stays owed. False when
  // nothing of it is left; call until then.
  bool remove_run(std::int64_t run, const std::string& uid) {
    return remove({.run = run, .uid = uid, .name = {}, .remove = true, .keep_outbox = true});
  }

  // Which run is being removed, piece by piece: answers about it would lack what is gone. -1: none. Any thread.
  [[nodiscard]] std::int64_t removing() const { return removing_; }

  // One small piece of work; false when there is nothing to do now. `now_ms`: Unix milliseconds; `steady_ms`: of a clock that
  // nobody sets. Where the first gains more than an hour on the second, what goes by age waits for a day, or until it is set
  // right: what is gone does not come back.
  bool step(std::int64_t now_ms, std::int64_t steady_ms);
  bool step(std::int64_t now_ms) { return step(now_ms, now_ms); }
  // Gives free pages back to the file system, a few; false when no more than `keep` are left.
  bool shrink(std::int64_t keep);

 private:
  struct Task {
    std::int64_t run = 0;
    std::string uid;
    std::string name;
    bool remove = false;
    std::uint32_t segment = UINT32_MAX;  // thin stretches of earlier segments,
    std::uint64_t below = UINT64_MAX;    // and those of this one that end before this attempt
    bool pressed = false;                // only while it is pressed
    bool quota = false;                  // only until the run is within max_run_bytes
    bool keep_outbox = false;
    bool ended = false;  // only while nobody holds the run
  };
  // What a run's chunks take, as far as they were looked at.
  struct Size {
    std::int64_t bytes = 0;
    std::map<std::int64_t, std::int64_t> seen;  // by stream: id of its newest chunk
  };
  // Lets go of those that have stayed long enough.
  void look_at_those_that_came_back(std::int64_t steady_ms);
  [[nodiscard]] bool came_back(const std::string& uid) const;
  // What a server of before did not come to the end of.
  std::optional<Task> choose_begun();
  // Whether ages by the wall clock count now.
  bool trusts_clock(std::int64_t now_ms, std::int64_t steady_ms);
  std::optional<Task> choose(std::int64_t now_ms);
  std::optional<Task> choose_attempts();
  std::optional<Task> choose_run_size();
  std::optional<Task> choose_pressed();
  // Something of the run's log is not in the shared history and must be.
  [[nodiscard]] bool has_unsent(std::int64_t run, const std::string& uid);
  // A sink has not taken all of the run's alerts, or some are open still: resolves that go with the run would never be sent.
  [[nodiscard]] bool is_owed(const std::string& uid, std::int64_t age_ms);
  [[nodiscard]] bool ends_alerts(const std::string& uid);
  [[nodiscard]] bool row_waits(const std::string& uid);
  // Looks at chunks that came since; the first time at all of the run's, without their pages of content.
  std::int64_t chunk_bytes(std::int64_t run);
  // The oldest stretch of the task's that still has chunks; absent: none.
  std::optional<std::int64_t> oldest_stretch(const Task& task);
  [[nodiscard]] bool has_whole_stretch(const Task& task);
  // One piece; false when the task is done.
  bool thin(const Task& task);
  bool remove(const Task& task);
  void remove_last(const Task& task);
  // Removes a few rows of a stream's range; false when there are none.
  bool remove_range(const Task& task, const char* select, const char* erase, std::int64_t first, std::int64_t last);
  [[nodiscard]] bool is_held(const std::string& name);
  // One transaction, of nothing when the run began anew: what came of it since must stay.
  void erase(const Task& task, const std::function<void(Connection&)>& work);
  [[nodiscard]] bool is_pinned(const std::string& name) const;
  std::int64_t used_bytes();

  const RetentionOptions options_;
  const Write write_;
  const std::function<void()> removed_;
  Connection reader_;
  std::vector<std::string> pinned_;
  std::map<std::int64_t, Size> sizes_;  // by run; only with max_run_bytes
  std::mutex holder_mutex_;
  UnlessHeld unless_held_;
  EndAlerts end_alerts_;
  RowWaits row_waits_;
  mutable std::mutex told_mutex_;
  std::map<std::string, std::uint64_t, std::less<>> told_;  // see run_bytes()
  struct CameBack {
    std::string uid;
    std::optional<std::int64_t> seen_ms;  // steady: at the first look since
  };
  mutable std::mutex came_back_mutex_;
  std::deque<CameBack> came_back_;  // the newest last
  std::optional<Task> task_;
  std::atomic<std::int64_t> removing_{-1};
  std::int64_t begun_ = -1;  // the stretch that is being thinned
  std::optional<std::int64_t> looked_ms_;
  std::optional<std::int64_t> clock_ahead_ms_;   // wall beside steady, when it was trusted
  std::optional<std::int64_t> trusted_from_ms_;  // steady: the clock was set forward
  bool ages_count_ = true;
  std::atomic<bool> keep_unsent_{false};
  std::atomic<bool> pressed_{false};
  std::atomic<std::uint64_t> pressed_out_{0};
};

}  // namespace scalewatch::history
