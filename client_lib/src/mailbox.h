// Where the trainer's thread and the client's thread meet.
//
// While training, the trainer's thread takes no lock, allocates nothing and makes no system call here: attempts, the sheets
// that hold their records, misuse and directives pass through rings of one producer and one consumer whose slots were made
// beforehand, and nobody is woken: the client's thread polls. What sets up or ends (tensors, closing) takes a lock, and an
// attempt after whose begin so many tensors were declared that the table doubled makes a few sheets larger itself.
#pragma once

#include <atomic>
#include <boost/lockfree/spsc_queue.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "client_lib/src/sampling.h"
#include "client_lib/src/types.h"

namespace scalewatch::client {

// What the client's thread says about itself; read by scalewatch_get_stats.
struct Status {
  std::int32_t connection = 0;  // scalewatch_connection
  FaultCause last_fault_cause = FaultCause::kUnspecified;
  std::string last_fault;
  std::uint64_t durable_attempts = 0;  // every attempt up to this one is durable, or lost and announced
  std::uint64_t reports_sent = 0;
  std::uint64_t reports_thinned = 0;
  std::uint64_t dropped[kLossCauses] = {};  // by LossCause
  std::uint64_t dropped_stopped = 0;        // made before the client was told to stop, and not durable then
  std::uint64_t buffered_bytes = 0;
  std::uint64_t spooled_bytes = 0;
  std::uint64_t connects = 0;
  std::uint64_t client_thread_ns = 0;  // processor time of the client's thread
  bool stopped = false;
};

class Mailbox {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kAttempts = 512;    // on their way at most
  static constexpr std::size_t kBadKept = 64;      // non-finite tensors of an attempt that found no sheet
  static constexpr std::size_t kEnlargedHere = 3;  // sheets that the trainer's thread makes larger when the table has doubled

  // max_bytes: of sheets and histograms on their way. There are at least three sheets, whatever the number of tensors.
  explicit Mailbox(std::uint64_t max_bytes);
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  // ---- trainer's thread, setting up ----
  // Makes the slots, for so many scalers and optimizers. Before the client's thread begins. histograms: of gradients there will
  // be some.
  void prepare(std::size_t scalers, std::size_t optimizers, bool histograms);
  void add_tensor(TensorInfo info);
  // Asks the client's thread to end by the deadline. say_goodbye = false: the process ends without having closed; false when
  // the lock was not to be had in 200 ms: a signal handler that exits may have interrupted its owner.
  bool close(Clock::time_point deadline, std::string reason, bool say_goodbye);

  // ---- trainer's thread, training ----
  [[nodiscard]] Attempt& attempt() noexcept { return *attempt_; }
  [[nodiscard]] Sheet& sheet() noexcept { return *sheet_; }
  // Room for the open attempt's histograms, empty; null when all there is is on its way. Valid until the next post().
  [[nodiscard]] Histograms* take_histograms() noexcept;
  // Hands attempt(), sheet() and the histograms over; all are empty afterwards. bad: records of the sheet that are not finite.
  // tensors: declared so far; a sheet that was made for far fewer goes back to the client's thread, which makes it larger, but
  // for kEnlargedHere when the table has doubled, which are made larger here: the attempt keeps its statistics.
  // Without a free sheet only some of those go along; without a free attempt nothing does, which shows as a gap in
  // Attempt::number.
  void post(std::size_t bad, std::size_t tensors) noexcept;
  // False when it had to be dropped.
  bool post(const Misuse& misuse) noexcept { return misuse_.push(misuse); }
  void set_phase(std::int32_t phase) noexcept { phase_.store(phase, std::memory_order_relaxed); }
  // What the server's directives say by now, null when they said nothing yet. Valid until the next call.
  [[nodiscard]] Overrides* overrides() noexcept;

  // ---- client's thread ----
  struct Mail {
    std::vector<Attempt*> attempts;  // to be given back
    std::vector<TensorInfo> tensors;
    bool closing = false;
    bool say_goodbye = false;
    std::uint64_t ended = 0;  // attempts so far: those that are not among the attempts found the queue full
    Clock::time_point deadline;
    std::string reason;
  };
  // Takes all that is new, and keeps enough sheets for so many tensors ready.
  void take(Mail& mail);
  void give_back(Attempt* attempt);
  // The oldest misuse event of an attempt up to this one.
  [[nodiscard]] bool take_misuse(std::uint64_t attempt, Misuse& misuse);
  void offer(std::unique_ptr<Overrides> overrides);
  void publish(const Status& status);
  [[nodiscard]] std::int32_t phase() const noexcept { return phase_.load(std::memory_order_relaxed); }
  // Sleeps until wake() or the deadline.
  void wait_until(Clock::time_point deadline);
  // The trainer closed the monitor; the process goes on.
  [[nodiscard]] bool saying_goodbye() const;
  // Nothing here is used any more.
  void finish();

  // ---- any thread but the trainer's while training ----
  void wake();
  [[nodiscard]] Status status() const;
  // True when the client's thread finished in time.
  [[nodiscard]] bool wait_finished(Clock::time_point deadline) const;
  // True when the attempt became durable in time; false also when the client was told to stop.
  [[nodiscard]] bool wait_durable(std::uint64_t attempt, Clock::time_point deadline) const;

  // ---- any thread ----
  [[nodiscard]] bool stopped() const noexcept { return stopped_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::size_t kMaxSheets = kAttempts;
  static constexpr std::size_t kSmallSheets = 8;
  static constexpr std::size_t kMaxMisuse = 128;
  static constexpr std::size_t kMaxOverrides = 16;
  static constexpr std::size_t kHistograms = 2;         // attempts with histograms on their way
  static constexpr std::size_t kFewestHistograms = 16;  // of an attempt, whatever max_bytes is
  static constexpr std::uint64_t kHistogramsShare = 8;  // each gets so much of max_bytes at most

  template <class T, std::size_t kCapacity>
  using Ring = boost::lockfree::spsc_queue<T, boost::lockfree::capacity<kCapacity>>;

  Sheet* take_sheet(std::size_t tensors) noexcept;
  bool enlarge(Sheet& first, std::size_t tensors) noexcept;
  [[nodiscard]] std::size_t sheets_for(std::size_t tensors) const noexcept;
  void keep_sheets_ready(std::size_t tensors);
  void give_back(Sheet* sheet);
  void make_room(Histograms& histograms, std::size_t gradients) const;

  // The trainer's side.
  Attempt* attempt_;
  Sheet* sheet_;
  Histograms* held_histograms_ = nullptr;  // taken and not posted
  std::vector<Sheet*> enlarged_;           // made larger here and not used yet
  std::size_t enlarged_for_ = 0;           // for so many tensors
  std::unique_ptr<Overrides> overrides_;

  // Between the threads.
  Ring<Attempt*, kAttempts> posted_, free_attempts_;
  Ring<Sheet*, kMaxSheets> free_sheets_, outgrown_;
  Ring<Sheet*, kSmallSheets> free_small_;
  Ring<Histograms*, kHistograms> free_histograms_;
  Ring<Misuse, kMaxMisuse> misuse_;
  std::atomic<Overrides*> offered_{nullptr};
  Ring<Overrides*, kMaxOverrides> retired_;
  std::atomic<std::uint64_t> ended_{0};
  std::atomic<std::int32_t> phase_{0};
  std::atomic<bool> stopped_{false};

  // The client's side.
  const std::uint64_t max_bytes_;
  std::size_t tensors_ = 0;
  std::vector<std::unique_ptr<Sheet>> sheets_;
  std::array<Sheet, kSmallSheets> small_;
  std::size_t gradients_ = 0;
  bool with_histograms_ = false;
  std::array<Histograms, kHistograms> histograms_;
  std::unique_ptr<Attempt[]> attempts_;

  // Under the lock.
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  mutable std::condition_variable published_;
  bool woken_ = false;
  bool finished_ = false;
  Mail setting_up_;  // all but its attempts
  Status status_;
};

}  // namespace scalewatch::client
