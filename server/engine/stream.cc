#include "server/engine/stream.h"

#include <algorithm>
#include <utility>

#include "server/engine/hello.h"
#include "server/engine/report_codec.h"
#include "server/engine/text.h"

namespace scalewatch::engine {

namespace {

constexpr std::size_t kMaxReasonBytes = 256;
constexpr std::uint64_t kMaxAttemptJump = 1'000'000;  // beyond what was announced as lost
constexpr std::uint64_t kSmallMessageBytes = 256;     // what a loss or goodbye counts as in the queue

}  // namespace

StreamImpl::StreamImpl(StreamHost& host, std::shared_ptr<StreamPeer> peer) : host_(host), peer_(std::move(peer)) {
  ++host_.counters().streams_open;
}

StreamImpl::~StreamImpl() {
  --host_.counters().streams_open;
  host_.counters().queued_bytes -= queued_bytes_;  // of what the pipeline refused at the end
}

void StreamImpl::with_peer(const std::function<void(StreamPeer&)>& call) {
  std::lock_guard lock(peer_mutex_);
  if (peer_) call(*peer_);
}

void StreamImpl::end(v1::FaultCause cause, const std::string& message, std::uint64_t seq, const std::string& server) {
  if (state_.exchange(State::kOver) == State::kOver) return;
  v1::Fault fault;
  fault.set_cause(cause);
  fault.set_message(message);
  fault.set_seq(seq);
  fault.set_server(server);
  with_peer([&](StreamPeer& peer) { peer.end(fault); });
}

Stream::Next StreamImpl::refuse(v1::FaultCause cause, const std::string& message, std::uint64_t seq) {
  end(cause, message, seq);
  return Next::kStop;
}

Stream::Next StreamImpl::on_message(v1::ClientMessage&& message) {
  if (state_ == State::kOver) return Next::kStop;
  if (state_ == State::kNew) {
    if (!message.has_hello()) return refuse(v1::FAULT_CAUSE_PROTOCOL, "the first message of a stream must be a Hello");
    return on_hello(std::move(*message.mutable_hello()));
  }
  if (state_ == State::kJoining) return refuse(v1::FAULT_CAUSE_PROTOCOL, "wait for HelloAck before sending more");
  slot_->last_seen_ms = host_.clock().steady_ms();
  switch (message.kind_case()) {
    case v1::ClientMessage::kTable:
      return on_table(message.table());
    case v1::ClientMessage::kReport:
      note_phase(message.report().phase());
      return on_report(*message.mutable_report());
    case v1::ClientMessage::kLoss:
      return on_loss(message.loss());
    case v1::ClientMessage::kHeartbeat:
      note_phase(message.heartbeat().phase());
      return Next::kContinue;
    case v1::ClientMessage::kGoodbye:
      return on_goodbye(message.goodbye());
    case v1::ClientMessage::kHello:
      return refuse(v1::FAULT_CAUSE_PROTOCOL, "a second Hello on one stream");
    case v1::ClientMessage::KIND_NOT_SET:
      return Next::kContinue;  // of a later protocol: nothing here that this server could use
  }
  return Next::kContinue;
}

// ---- Hello ----------------------------------------------------------------------------------------------------------

Stream::Next StreamImpl::on_hello(v1::Hello&& hello) {
  if (auto fault = hello_fault(hello, host_.options().max_ranks); !fault.empty())
    return refuse(v1::FAULT_CAUSE_BAD_HELLO, fault);
  state_ = State::kJoining;
  const std::string run = hello.run();
  host_.look_up(run, [self = shared_from_this(), hello = std::move(hello)](StreamHost::Lookup&& found) mutable {
    self->found(std::move(found), std::move(hello));
  });
  return Next::kPause;
}

void StreamImpl::found(StreamHost::Lookup&& run, v1::Hello&& hello) {
  if (!run.handle) return end(run.cause, run.error, 0, run.server);
  {
    std::lock_guard lock(peer_mutex_);
    if (!peer_) return;  // gone meanwhile
    handle_ = run.handle;
  }
  run.handle->post([self = shared_from_this(), hello = std::move(hello)] { self->join(hello); });
}

void StreamImpl::hand(std::function<void()> task) {
  handle_->post([handle = handle_, task = std::move(task)] {
    if (!handle->forgotten) task();
  });
}

void StreamImpl::join(const v1::Hello& hello) {
  if (handle_->forgotten) {
    // The run left memory between the look-up and now: once more, from the store.
    return host_.look_up(hello.run(),
                         [self = shared_from_this(), hello = v1::Hello(hello)](StreamHost::Lookup&& found) mutable {
                           self->found(std::move(found), std::move(hello));
                         });
  }
  {
    // A connection that is gone already must not take the rank's place.
    std::lock_guard lock(peer_mutex_);
    if (!peer_) return;
  }
  Run::Joined joined = handle_->run->join(hello, shared_from_this());
  if (joined.fault) return end(joined.fault->cause(), joined.fault->message());
  slot_ = joined.slot;
  v1::ServerMessage message;
  *message.mutable_hello_ack() = std::move(joined.ack);
  const std::uint64_t told = message.hello_ack().resume_after_seq();
  bool here = false;
  {
    std::lock_guard lock(peer_mutex_);  // an ack that sees it open waits for its HelloAck
    State expected = State::kJoining;   // unless it was ended meanwhile
    const bool open = state_.compare_exchange_strong(expected, State::kOpen);
    here = peer_ != nullptr;
    if (here && open) {
      peer_->send(message);
      peer_->resume();
    }
  }
  if (!here) {
    handle_->run->disconnected(*slot_, this);
  } else if (slot_->durable_seq > told) {
    send_ack();
  }
}

void StreamImpl::closed() {
  std::shared_ptr<RunHandle> handle;
  {
    std::lock_guard lock(peer_mutex_);
    peer_.reset();
    handle = handle_;
  }
  state_ = State::kOver;
  if (!handle) return;
  handle->post([self = shared_from_this()] {
    if (self->slot_) self->handle_->run->disconnected(*self->slot_, self.get());
  });
}

// ---- what an open stream brings -------------------------------------------------------------------------------------

Stream::Next StreamImpl::on_table(const v1::TableDelta& delta) {
  std::uint32_t version = 0;
  {
    std::lock_guard lock(slot_->mutex);
    if (slot_->owner != this) return Next::kStop;
    auto table = std::make_shared<domain::TensorTable>(*slot_->table);
    if (auto fault = append_table(*table, delta, host_.options().limits); !fault.empty()) {
      const bool limit = fault.find("at most") != std::string::npos;
      return refuse(limit ? v1::FAULT_CAUSE_LIMIT : v1::FAULT_CAUSE_BAD_TABLE, fault);
    }
    if (table->size() == slot_->table->size()) return Next::kContinue;  // sent again, nothing new
    slot_->table = host_.tables().share(std::move(table));
    version = ++slot_->table_version;
  }
  hand([handle = handle_, slot = slot_, version, delta] { handle->run->take_table(*slot, version, delta); });
  return Next::kContinue;
}

StreamImpl::Turn StreamImpl::turn_of(std::uint64_t first_seq, std::uint64_t last_seq) {
  if (slot_->owner != this) return Turn::kReplaced;
  if (last_seq <= slot_->last_seq) return Turn::kRepeat;
  return first_seq <= slot_->last_seq + 1 ? Turn::kTake : Turn::kGap;
}

Stream::Next StreamImpl::on_report(v1::Report& report) {
  const std::uint64_t seq = report.seq();
  TakenReport taken;
  {
    std::lock_guard lock(slot_->mutex);
    switch (turn_of(seq, seq)) {
      case Turn::kReplaced:
        return Next::kStop;
      case Turn::kRepeat:
        ++host_.counters().reports_repeated;
        return Next::kContinue;
      case Turn::kGap:
        return refuse(v1::FAULT_CAUSE_SEQ_GAP,
                      "report " + std::to_string(seq) + " follows " + std::to_string(slot_->last_seq) +
                          ": announce what was dropped as Loss, or resume after the durable seq",
                      seq);
      case Turn::kTake:
        break;
    }
    slot_->last_seq = seq;
    std::string fault = report_fault(report, slot_->hello, *slot_->table);
    if (fault.empty() && !report.retrospective() && report.attempt() <= slot_->last_attempt) {
      fault = "attempt " + std::to_string(report.attempt()) + " does not follow " + std::to_string(slot_->last_attempt);
    }
    // Attempts that were lost have been announced, one seq each.
    const std::uint64_t most = slot_->last_attempt + std::max(kMaxAttemptJump, seq - slot_->last_attempt_seq);
    // A log that begins in the middle begins anywhere.
    if (fault.empty() && report.attempt() > most && !report.has_from_log()) {
      // Taken, it would make every true attempt after it come too late, or stretch history beyond them.
      fault = "attempt " + std::to_string(report.attempt()) + " is too far after " + std::to_string(slot_->last_attempt);
    }
    if (!fault.empty()) return reject_report(seq, fault);
    if (!report.retrospective()) {
      slot_->last_attempt = report.attempt();
      slot_->last_attempt_seq = seq;
    }
    taken.row = row_of(report);
    taken.digest =
        digest_of(report, slot_->rank, report.attempt() + slot_->attempt_base, host_.clock().wall_ms(), slot_->table);
    if (slot_->next_rules) {
      slot_->rules = std::exchange(slot_->next_rules, nullptr);
      slot_->state.change_rules(*slot_->rules);
    }
    taken.rules = slot_->rules;
    const auto columns = columns_of(report);
    slot_->state.fold(columns, taken.digest);
    taken.reading = slot_->meter.take(columns, taken.digest, host_.clock().steady_ms());
    add_log(report, taken.digest);
    if (slot_->want_state.exchange(false)) taken.rank_state = slot_->state.save();
  }
  if (report.has_client()) taken.client = report.client();
  if (report.statistics_lost() != v1::LOSS_CAUSE_UNSPECIFIED) ++host_.counters().reports_thinned;
  ++host_.counters().reports;
  host_.counters().records += record_count(report);
  const std::uint64_t bytes = taken.row.payload.size() + kSmallMessageBytes;
  reserve(bytes);
  hand([self = shared_from_this(), taken = std::make_shared<TakenReport>(std::move(taken)), seq, bytes]() mutable {
    self->slot_->folded_seq = seq;
    self->handle_->run->take(*self->slot_, std::move(*taken), [self, seq, bytes] { self->note_durable(seq, bytes); });
  });
  return after_hand_over();
}

// A refused report costs only itself: it counts as lost, and the stream goes on after it.
Stream::Next StreamImpl::reject_report(std::uint64_t seq, const std::string& fault) {
  ++host_.counters().reports_rejected;
  reserve(kSmallMessageBytes);
  hand([self = shared_from_this(), seq] {
    self->slot_->folded_seq = seq;
    self->handle_->run->lose(*self->slot_, seq, seq, domain::LossCause::kRejected,
                             [self, seq] { self->note_durable(seq, kSmallMessageBytes); });
  });
  v1::ServerMessage message;
  message.mutable_fault()->set_cause(v1::FAULT_CAUSE_BAD_REPORT);
  message.mutable_fault()->set_message("report " + std::to_string(seq) + " refused: " + fault);
  message.mutable_fault()->set_seq(seq);
  with_peer([&](StreamPeer& peer) { peer.send(message); });
  return after_hand_over();
}

Stream::Next StreamImpl::on_loss(const v1::Loss& loss) {
  std::uint64_t first = loss.first_seq();
  const std::uint64_t last = loss.last_seq();
  if (first == 0 || last < first)
    return refuse(v1::FAULT_CAUSE_PROTOCOL,
                  "Loss from " + std::to_string(first) + " to " + std::to_string(last) + " is no range");
  if (last > kMaxSeq) {
    return refuse(v1::FAULT_CAUSE_PROTOCOL, "Loss up to " + std::to_string(last) + ": nobody can have given out so many");
  }
  {
    std::lock_guard lock(slot_->mutex);
    switch (turn_of(first, last)) {
      case Turn::kReplaced:
        return Next::kStop;
      case Turn::kRepeat:
        return Next::kContinue;
      case Turn::kGap:
        return refuse(v1::FAULT_CAUSE_SEQ_GAP,
                      "Loss from " + std::to_string(first) + " follows " + std::to_string(slot_->last_seq));
      case Turn::kTake:
        break;
    }
    first = std::max(first, slot_->last_seq + 1);
    slot_->last_seq = last;
  }
  host_.counters().reports_lost += last - first + 1;
  reserve(kSmallMessageBytes);
  hand([self = shared_from_this(), first, last, cause = loss_cause(loss.cause())] {
    self->slot_->folded_seq = last;
    self->handle_->run->lose(*self->slot_, first, last, cause, [self, last] { self->note_durable(last, kSmallMessageBytes); });
  });
  return after_hand_over();
}

Stream::Next StreamImpl::on_goodbye(const v1::Goodbye& goodbye) {
  if (std::exchange(goodbye_, true)) return Next::kStop;
  reserve(kSmallMessageBytes);
  hand([self = shared_from_this(), reason = clipped(goodbye.reason(), kMaxReasonBytes)] {
    const bool valid = name_fault(reason, kMaxReasonBytes).empty();
    self->handle_->run->leave(*self->slot_, valid ? reason : "", [self] {
      self->note_durable(self->slot_->durable_seq, kSmallMessageBytes);
      self->send_ack();
      self->ends_replicated_ = true;
      self->finish_after_goodbye();
    });
  });
  return Next::kStop;
}

void StreamImpl::finish_after_goodbye() {
  const EngineOptions& options = host_.options();
  const bool waits = options.replication != nullptr && options.keep_until_replicated;
  if (waits && slot_->replicated_seq < slot_->durable_seq) return;
  if (!ends_replicated_.exchange(false)) return;
  state_ = State::kOver;
  with_peer([](StreamPeer& peer) { peer.finish(); });
}

void StreamImpl::note_replicated() {
  send_ack();
  finish_after_goodbye();
}

// ---- room and acks --------------------------------------------------------------------------------------------------

void StreamImpl::reserve(std::uint64_t bytes) {
  queued_bytes_ += bytes;
  handle_->queued_bytes += bytes;
  host_.counters().queued_bytes += bytes;
}

Stream::Next StreamImpl::after_hand_over() {
  if (has_room()) return Next::kContinue;
  slot_->held_back = true;
  host_.paused(shared_from_this());
  return Next::kPause;
}

bool StreamImpl::has_room() const {
  const EngineOptions& options = host_.options();
  return queued_bytes_ < options.stream_queue_bytes && handle_->queued_bytes < options.run_queue_bytes &&
         host_.counters().queued_bytes < options.total_queue_bytes;
}

bool StreamImpl::resume_if_room() {
  if (state_ == State::kOver) return true;  // nothing waits any more
  if (!has_room()) return false;
  // What it sent meanwhile is still to be read: it was not silent.
  slot_->last_seen_ms = host_.clock().steady_ms();
  slot_->held_back = false;
  with_peer([](StreamPeer& peer) { peer.resume(); });
  return true;
}

void StreamImpl::note_durable(std::uint64_t seq, std::uint64_t bytes) {
  queued_bytes_ -= bytes;
  handle_->queued_bytes -= bytes;
  host_.counters().queued_bytes -= bytes;
  slot_->durable_seq = seq;  // commits are in order, on one thread
  const auto connected = slot_->stream();
  if (connected && !connected->ack_due_.exchange(true)) host_.made_durable(connected);
}

void StreamImpl::tell(const v1::Directive& directive) {
  v1::ServerMessage message;
  *message.mutable_directive() = directive;
  with_peer([&](StreamPeer& peer) { peer.send(message); });
}

void StreamImpl::send_ack() {
  ack_due_ = false;
  // What the connection before brought may become durable while this one still joins: HelloAck tells, or join() after it.
  if (state_ != State::kOpen) return;
  v1::ServerMessage message;
  message.mutable_ack()->set_folded_seq(slot_->folded_seq);
  message.mutable_ack()->set_durable_seq(slot_->durable_seq);
  message.mutable_ack()->set_replicated_seq(slot_->replicated_seq);
  with_peer([&](StreamPeer& peer) { peer.send(message); });
}

}  // namespace scalewatch::engine
