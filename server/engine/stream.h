// One connection of a rank: checks and decodes on the caller's thread, folds rank-local state there, and hands the run's
// strand a digest.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "server/engine/counters.h"
#include "server/engine/engine.h"
#include "server/engine/rank_slot.h"
#include "server/engine/run.h"

namespace scalewatch::engine {

// A run with its strand. `post` runs a task on the strand, in order.
struct RunHandle {
  std::shared_ptr<Run> run;
  std::function<void(std::function<void()>)> post;
  std::atomic<std::uint64_t> queued_bytes{0};
  bool forgotten = false;  // strand only: left memory; look the name up again
};

// What a stream needs of the engine. Outlives it.
class StreamHost {
 public:
  virtual ~StreamHost() = default;
  // The run of that name, made or loaded from the store when it isn't in memory; else a fault.
  struct Lookup {
    std::shared_ptr<RunHandle> handle;
    v1::FaultCause cause = v1::FAULT_CAUSE_UNSPECIFIED;
    std::string error;
    std::string server{};  // MOVED: where to
  };
  // `done` is called once, from any thread, maybe before this returns.
  virtual void look_up(const std::string& name, std::function<void(Lookup&&)> done) = 0;
  // A stream that returned kPause and must be resumed once there is room.
  virtual void paused(std::shared_ptr<StreamImpl> stream) = 0;
  // Something of the stream became durable; it will be acked after the commit. Committer thread.
  virtual void made_durable(const std::shared_ptr<StreamImpl>& stream) = 0;
  virtual const EngineOptions& options() const = 0;
  virtual Clock& clock() = 0;
  virtual Counters& counters() = 0;
  virtual SharedTables& tables() = 0;
};

class StreamImpl final : public Stream, public std::enable_shared_from_this<StreamImpl> {
 public:
  StreamImpl(StreamHost& host, std::shared_ptr<StreamPeer> peer);
  ~StreamImpl() override;

  Next on_message(v1::ClientMessage&& message) override;
  void closed() override;

  // From the engine, any thread.
  void end(v1::FaultCause cause, const std::string& message, std::uint64_t seq = 0, const std::string& server = {});
  void note_durable(std::uint64_t seq, std::uint64_t bytes);  // committer thread
  void send_ack();                                            // committer thread, run's strand
  void note_replicated();                                     // run's strand: acks, and ends what waited for it
  void tell(const v1::Directive& directive);                  // run's strand
  bool resume_if_room();                                      // false when it must wait on

 private:
  enum class State : std::uint8_t { kNew, kJoining, kOpen, kOver };

  Next on_hello(v1::Hello&& hello);
  void found(StreamHost::Lookup&& run, v1::Hello&& hello);
  void join(const v1::Hello& hello);  // on the run's strand
  // Runs a task on the run's strand, unless the run has gone elsewhere by then: what that would have brought is not acked, and
  // comes again there.
  void hand(std::function<void()> task);
  Next on_table(const v1::TableDelta& delta);
  Next on_report(v1::Report& report);
  void note_phase(v1::Phase phase) {
    if (v1::Phase_IsValid(phase)) slot_->phase = phase;
  }
  Next on_loss(const v1::Loss& loss);
  Next on_goodbye(const v1::Goodbye& goodbye);
  // After a goodbye that is durable: ends the stream, once all of it is replicated where clients keep until then.
  void finish_after_goodbye();
  Next refuse(v1::FaultCause cause, const std::string& message, std::uint64_t seq = 0);
  // Seq bookkeeping under the slot's lock. kTake: new; kRepeat: drop; kGap: ends the stream; kReplaced: not ours any more.
  enum class Turn : std::uint8_t { kTake, kRepeat, kGap, kReplaced };
  Turn turn_of(std::uint64_t first_seq, std::uint64_t last_seq);
  Next reject_report(std::uint64_t seq, const std::string& fault);
  // Counts what is about to be handed over; after_hand_over() then says whether to read on.
  void reserve(std::uint64_t bytes);
  Next after_hand_over();
  [[nodiscard]] bool has_room() const;
  void with_peer(const std::function<void(StreamPeer&)>& call);

  StreamHost& host_;
  std::mutex peer_mutex_;
  std::shared_ptr<StreamPeer> peer_;  // null once closed
  std::atomic<State> state_{State::kNew};
  std::shared_ptr<RunHandle> handle_;  // set under peer_mutex_, before kOpen
  std::shared_ptr<RankSlot> slot_;     // set before kOpen
  std::atomic<std::uint64_t> queued_bytes_{0};
  std::atomic<bool> ack_due_{false};
  bool goodbye_ = false;                      // caller's thread
  std::atomic<bool> ends_replicated_{false};  // a goodbye that is durable waits for the shared history
};

}  // namespace scalewatch::engine
