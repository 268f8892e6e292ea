// Where the trainer's thread and the client's thread meet. Every function takes one short lock, held for pointer swaps and
// small copies only; bounded in bytes and entries.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "client_lib/src/types.h"

namespace scalewatch::client {

// What the client's thread says about itself; read by scalewatch_get_stats.
struct Status {
  std::int32_t connection = 0;  // scalewatch_connection
  FaultCause last_fault_cause = FaultCause::kUnspecified;
  std::string last_fault;
  std::uint64_t durable_seq = 0;
  std::uint64_t reports_sent = 0;
  std::uint64_t reports_thinned = 0;
  std::uint64_t dropped[6] = {};  // by LossCause
  std::uint64_t buffered_bytes = 0;
  std::uint64_t connects = 0;
  bool stopped = false;
};

class Mailbox {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Mailbox(std::uint64_t max_bytes) : max_bytes_(max_bytes) {}

  // ---- trainer's thread ----
  // Hands an attempt over and puts an empty one in its place. A full queue takes it without its statistics, or not at all.
  void post(std::unique_ptr<Attempt>& attempt);
  void add_tensor(TensorInfo info);
  void set_phase(std::int32_t phase) noexcept { phase_.store(phase, std::memory_order_relaxed); }
  // Asks the client's thread to end by the deadline. say_goodbye = false: the process ends without having closed.
  void close(Clock::time_point deadline, std::string reason, bool say_goodbye);

  // ---- client's thread ----
  struct Mail {
    std::vector<std::unique_ptr<Attempt>> attempts;
    std::uint64_t lost_first = 0;  // reports that found the queue full, after the attempts above; 0 = none
    std::uint64_t lost_last = 0;
    std::vector<TensorInfo> tensors;
    bool closing = false;
    bool say_goodbye = false;
    Clock::time_point deadline;
    std::string reason;
  };
  // Takes all that is new. mail.attempts gives used attempts back and is filled anew.
  void take(Mail& mail);
  void publish(const Status& status);
  [[nodiscard]] std::int32_t phase() const noexcept { return phase_.load(std::memory_order_relaxed); }
  // Sleeps until wake() or something is posted, at most until the deadline.
  void wait_until(Clock::time_point deadline);

  // ---- any thread ----
  void wake();
  [[nodiscard]] Status status() const;
  [[nodiscard]] bool stopped() const noexcept { return stopped_.load(std::memory_order_relaxed); }
  // True when seq became durable in time; false also when the client was told to stop.
  [[nodiscard]] bool wait_durable(std::uint64_t seq, Clock::time_point deadline) const;

 private:
  static constexpr std::size_t kMaxQueued = 4096;
  static constexpr std::size_t kMaxFree = 8;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  mutable std::condition_variable published_;
  bool woken_ = false;
  std::uint64_t max_bytes_;
  std::uint64_t queued_bytes_ = 0;
  std::uint64_t thinned_ = 0;
  Mail mail_;
  std::vector<std::unique_ptr<Attempt>> free_;
  Status status_;
  std::atomic<std::int32_t> phase_{0};
  std::atomic<bool> stopped_{false};
};

}  // namespace scalewatch::client
