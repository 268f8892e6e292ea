// Lets callers in by their tokens. It reads the file of tokens again whenever that changes, looks every half second at what
// runs for a caller whose token was revoked, and keeps guessers waiting. Without a file everybody is let in. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "server/auth/audit_log.h"
#include "server/auth/caller.h"
#include "server/auth/file_stamp.h"
#include "server/auth/lockout.h"
#include "server/auth/refusals.h"
#include "server/engine/ports/read_api.h"

namespace scalewatch::auth {

struct GateOptions {
  std::string tokens_file;                    // empty: everybody may do everything
  std::string audit_log;                      // empty: the server's log, when there are tokens
  std::uint64_t max_streams = 0;              // of ingest, all callers together; 0 = no limit
  std::uint64_t max_records_per_second = 0;   // likewise
  std::uint64_t max_queries_per_token = 128;  // calls at once, of a token that has no limit of its own; 0 = no limit
  // A stream that says no Hello for so long is half open: it ends.
  std::chrono::milliseconds hello_within{30'000};
  // A reader of a live stream who takes nothing for so long is cut.
  std::chrono::milliseconds reader_patience{30'000};
};

// What a caller is told whose token has no place left; see Gate::take_query.
inline constexpr const char* kManyQueries = "this token has as many calls under way as it may: try again";

// What became of a caller.
struct Admission {
  Caller caller;
  engine::Status status;           // kUnauthenticated; kResourceExhausted for one that must wait
  std::int64_t retry_after_s = 0;  // of the latter
  [[nodiscard]] bool ok() const { return status.ok(); }
};

class Gate {
 public:
  // Throws TokenFileError when the file can't be used, std::runtime_error when the audit log can't.
  explicit Gate(GateOptions options);
  ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  [[nodiscard]] bool open() const { return options_.tokens_file.empty(); }
  [[nodiscard]] const GateOptions& options() const { return options_; }

  // `authorization`: of the header, or empty; `peer`: the address that the call came from, without its port.
  Admission admit(std::string_view authorization, const std::string& peer);

  // What goes on for a caller, ended from outside. `check` is asked every half second, on the gate's thread; when it returns
  // false, `end` is called, once. Both must not block, and are called no more when the hold is gone.
  class Hold {
   public:
    ~Hold();
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    friend class Gate;
    Hold(Gate& gate, std::function<bool()> check, std::function<void()> end);
    Gate& gate_;
    std::function<bool()> check_;
    std::function<void()> end_;
    bool ended_ = false;
    std::list<Hold*>::iterator at_;
  };
  std::unique_ptr<Hold> hold(std::function<bool()> check, std::function<void()> end);

  // A place among the calls of the caller's token; null when all are taken. `caller` has a token.
  Permit take_query(const Caller& caller);
  // A place among all ingest streams; null when all are taken.
  Permit take_stream();
  Bucket& records() { return records_; }

  // Notes a call that changes something, or one that was refused. Nothing while there are neither tokens nor an audit log.
  void audit(const Caller& caller, std::string_view call, const std::string& target, const std::string& who,
             const engine::Status& status) const;

  // Counts one that was turned away; admit() does it by itself.
  void refused(Refusal cause) { refusals_.count(cause); }
  [[nodiscard]] const Refusals& refusals() const { return refusals_; }
  // Counts a message after which a stream is read later, for its rate.
  void slowed() { slowed_.fetch_add(1, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t slowed_count() const { return slowed_; }

  // Reads the file of tokens again if it changed; the gate's thread does it by itself.
  void refresh();

 private:
  using Tokens = std::map<std::string, std::shared_ptr<Token>>;

  void load();  // throws TokenFileError
  std::shared_ptr<Token> find(const std::string& id) const;
  void check_holds();
  Admission refuse(Refusal cause, Caller caller, engine::Status status, std::int64_t retry_after_s = 0);

  const GateOptions options_;
  const AuditLog audit_log_;
  Lockout lockout_;
  Bucket records_;
  std::shared_ptr<std::atomic<std::uint64_t>> streams_ = std::make_shared<std::atomic<std::uint64_t>>(0);
  Refusals refusals_;
  std::atomic<std::uint64_t> slowed_{0};

  mutable std::mutex tokens_mutex_;
  Tokens tokens_;
  std::mutex refresh_mutex_;
  FileStamp stamp_;  // refresh_mutex_

  std::mutex holds_mutex_;
  std::list<Hold*> holds_;

  std::mutex stop_mutex_;
  std::condition_variable stop_changed_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace scalewatch::auth
