#include "client_lib/src/sender.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "client_lib/include/scalewatch/scalewatch.h"
#include "client_lib/src/log.h"
#include "client_lib/src/wall_clock.h"

namespace scalewatch::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kFirstBackoff{500};
constexpr milliseconds kLongestBackoff{30'000};
constexpr milliseconds kMoveJitter{50};  // longest wait before the first move of a run to another server; doubles with each
constexpr milliseconds kClosingBackoff{200};  // longest wait between tries while the trainer waits in close
constexpr seconds kGreetingTimeout{10};
constexpr seconds kHeartbeat{5};
constexpr seconds kSettled{10};                         // a stream that lived as long was no failure
constexpr std::uint32_t kUsualMessageBytes = 4U << 20;  // until the server says its limit
constexpr milliseconds kPoll{5};  // the trainer's thread wakes nobody: what it posted is seen after so long
constexpr seconds kAgeCheck{60};
constexpr std::uint64_t kRingShare = 8;  // the ring gets an eighth of the buffer's bytes
constexpr std::size_t kMaxFaultText = 255;
constexpr std::string_view kToldToStop = "the server asked it to stop reporting";

// Causes after which this client never comes back.
bool for_good(FaultCause cause) {
  switch (cause) {
    case FaultCause::kFenced:
    case FaultCause::kBadHello:
    case FaultCause::kBadTable:
    case FaultCause::kLimit:
    case FaultCause::kProtocol:
      return true;
    default:
      return false;
  }
}

// Text from outside, fit for one line.
std::string one_line(std::string_view text) {
  std::string line(text.substr(0, kMaxFaultText));
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return line;
}

std::uint64_t thread_cpu_ns() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(time.tv_nsec);
}

// gRPC aborts the process when it finds none at its start.
bool descriptors_left() {
  constexpr int kEnough = 16;
  int taken[kEnough];
  int count = 0;
  while (count < kEnough && (taken[count] = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0)) >= 0) ++count;
  const bool enough = count == kEnough || (count == 0 && errno == EBADF);
  while (count > 0) close(taken[--count]);
  return enough;
}

}  // namespace

Sender::Sender(Mailbox& mailbox, SenderOptions options, const Identity& identity, const Sampling& sampling, Devices& devices)
    : mailbox_(mailbox),
      options_(std::move(options)),
      identity_(identity),
      name_("run '" + identity.run + "' rank " + std::to_string(identity.rank)),
      own_{pack_identity(identity), {}, SendBuffer(options_.buffer_bytes)},
      collector_(mailbox, name_, sampling, devices, Ring(options_.ring_attempts, options_.buffer_bytes / kRingShare), own_,
                 status_),
      servers_(options_.servers, identity.rank),
      max_message_bytes_(kUsualMessageBytes),
      random_(static_cast<unsigned>(identity.incarnation_order) ^ identity.rank) {
  if (options_.spool.directory.empty()) return;
  find_left_over();
  SpoolOwner owner{identity_.run, identity_.rank, identity_.incarnation, identity_.incarnation_order, own_.identity};
  own_.buffer = SendBuffer(options_.buffer_bytes, std::make_unique<Spool>(options_.spool, std::move(owner)));
}

// Some of what earlier starts left, oldest first; again when that is sent.
void Sender::find_left_over() {
  Leftovers found = find_leftovers(options_.spool, identity_.run, identity_.rank);
  for (Leftover& spool : found.spools) {
    // Nobody living holds it, whatever the clock said when it began. Once is enough, also where it can't be deleted.
    if (!left_over_sent_.insert(spool.owner().incarnation).second) continue;
    std::string packed = spool.owner().hello;
    left_over_.push_back({std::move(packed), {}, SendBuffer(std::make_unique<Leftover>(std::move(spool)))});
  }
  for (const std::string& note : found.notes) log_line(note);
}

void Sender::run() {
  retry_at_ = Clock::now();
  while (state_ != State::kOver) {
    collector_.collect(stopped_);
    step(Clock::now());
    publish();
    if (state_ != State::kOver) mailbox_.wait_until(next_deadline());
  }
  stream_.reset();
  if (!stopped_ && !own_.buffer.save() && !own_.buffer.disk_error().empty()) {
    log_line("what was not sent did not all go to the spool: " + own_.buffer.disk_error());
  }
  status_.connection = stopped_ ? SCALEWATCH_CONN_STOPPED : SCALEWATCH_CLOSED;
  publish();
}

void Sender::step(Clock::time_point now) {
  if (now >= look_at_age_) {
    look_at_age_ = now + kAgeCheck;
    outbox().buffer.drop_old(std::chrono::system_clock::now());
  }
  if (mail().closing && !std::exchange(leaving_noted_, true)) retry_at_ = std::min(retry_at_, now);
  if (stream_) receive(now);
  if (stopped_) {
    stream_.reset();
    state_ = mail().closing ? State::kOver : State::kWaiting;
    return;
  }
  const bool all_taken = mail().attempts.empty();
  if (mail().closing && now >= mail().deadline && all_taken) {
    state_ = State::kOver;
    return;
  }
  if (state_ == State::kWaiting && mail().closing && !mail().say_goodbye && all_taken && outbox().buffer.all_durable()) {
    state_ = State::kOver;
    return;
  }
  if (state_ == State::kWaiting && now >= retry_at_) connect(now);
  if (stream_) write(now);
}

void Sender::connect(Clock::time_point now) {
  if (!descriptors_left()) {
    status_.last_fault = "too few file descriptors are left for a connection";
    return retry(now);
  }
  if (mail().closing && mail().attempts.empty() && status_.connects == 0 && tries_closing_ >= servers_.size()) {
    state_ = State::kOver;  // no server was ever there
    return;
  }
  if (mail().closing && servers_.moves() == 0) ++tries_closing_;
  status_.connection = SCALEWATCH_CONNECTING;
  std::string fault;
  const Security security = read_security(options_.credentials, fault);
  if (!fault.empty()) {
    status_.last_fault = fault;
    if (!std::exchange(failure_said_, true)) log_line("no connection to " + servers_.current() + " (" + fault + ")");
    return retry(now);
  }
  token_ = security.token;
  stream_ = std::make_unique<Stream>(servers_.current(), security, [&mailbox = mailbox_] { mailbox.wake(); });
  state_ = State::kGreeting;
  greeting_until_ = now + kGreetingTimeout;
  const Outbox& from = outbox();
  table_greeted_ = from.buffer.table().size();
  send(pack_hello(from.identity, from.hash, from.buffer.last_seq(), from.buffer.told_durable_seq()));
}

void Sender::receive(Clock::time_point now) {
  for (;;) {
    const std::optional<std::string> bytes = stream_->read();
    if (!bytes) break;
    auto message = unpack(*bytes);
    if (!message) return on_end({13, "the server sent bytes that are no message of this protocol"}, now);  // INTERNAL
    if (auto* hello = std::get_if<HelloAck>(&*message)) handle(std::move(*hello), now);
    if (const auto* ack = std::get_if<Ack>(&*message)) handle(*ack, now);
    if (const auto* fault = std::get_if<Fault>(&*message)) handle(*fault, now);
    if (auto* directive = std::get_if<Directive>(&*message)) {
      if (directive->stop) {
        stop(kToldToStop);
      } else if (left_over_.empty()) {
        collector_.directives().put(std::move(*directive));
      }
    }
    if (stopped_ || !stream_) return;
  }
  if (const auto end = stream_->end()) {
    on_end(*end, now);
  } else if (state_ == State::kGreeting && now >= greeting_until_) {
    on_end({0, "the server accepted the connection and did not answer"}, now);
  }
}

void Sender::handle(HelloAck&& ack, Clock::time_point now) {
  if (state_ != State::kGreeting) return;
  if (std::ranges::any_of(ack.directives, &Directive::stop)) return stop(kToldToStop);
  state_ = State::kLive;
  live_since_ = now;
  failure_said_ = false;
  servers_.greeted();
  ++status_.connects;
  status_.connection = SCALEWATCH_CONNECTED;
  if (ack.max_message_bytes != 0) max_message_bytes_ = ack.max_message_bytes;
  keep_until_replicated_ = ack.keep_until_replicated;
  outbox().buffer.resume(ack.resume_after_seq, rounds_failed() > 0, keep_until_replicated_);
  const bool own = left_over_.empty();
  table_sent_ = ack.need_table || !own ? 0 : table_greeted_;
  if (own)
    collector_.directives().replace(std::move(ack.directives), ack.server_time_ms == 0 ? 0 : ack.server_time_ms - wall_ms());
}

void Sender::handle(const Ack& ack, Clock::time_point now) {
  SendBuffer& buffer = outbox().buffer;
  buffer.acked(ack.durable_seq, now);
  const std::uint64_t kept = keep_until_replicated_ ? ack.replicated_seq : ack.durable_seq;
  if (kept > buffer.durable_seq()) failures_ = 0;
  buffer.durable(kept);
}

void Sender::handle(const Fault& fault, Clock::time_point now) {
  status_.last_fault_cause = fault.cause;
  status_.last_fault = one_line(fault.message);
  if (fault.cause == FaultCause::kMoved) {
    move(fault.server, now);
  } else if (fault.cause == FaultCause::kBadReport) {
    outbox().buffer.reject(fault.seq);
  } else if (fault.cause == FaultCause::kDenied) {
    // What lies in the spool stays there: with another token it may be taken.
    if (!has_new_token()) return stop(status_.last_fault);
  } else if (for_good(fault.cause)) {
    if (left_over_.empty()) return stop(status_.last_fault);
    const SendBuffer& buffer = outbox().buffer;
    const std::uint64_t lost = buffer.last_seq() - buffer.durable_seq();
    status_.dropped_stopped += lost;
    log_line(std::to_string(lost) + " reports that an earlier start of " + name_ +
             " left in the spool are dropped: " + status_.last_fault);
    next_outbox(now);
  }
}

// What an earlier start left is sent, or never will be.
void Sender::next_outbox(Clock::time_point now) {
  left_over_.front().buffer.abandon();
  left_over_.pop_front();
  if (left_over_.empty()) find_left_over();
  stream_.reset();
  state_ = State::kWaiting;
  retry_at_ = now;
}

bool Sender::has_new_token() const {
  std::string fault;
  const Security now = read_security(options_.credentials, fault);
  return fault.empty() && now.token != token_;
}

void Sender::stop(std::string_view why) {
  stopped_ = true;
  status_.stopped = true;
  status_.connection = SCALEWATCH_CONN_STOPPED;
  if (status_.last_fault.empty()) status_.last_fault = why;
  log_line("monitoring of " + name_ + " stopped for good; training goes on: " + std::string(why));
  left_over_.clear();  // stays on disk
  status_.dropped_stopped += own_.buffer.last_seq() - own_.buffer.durable_seq();
  own_.buffer.abandon();
}

void Sender::write(Clock::time_point now) {
  while ((state_ == State::kLive || state_ == State::kLeaving) && stream_->can_write() && write_one(now)) {
  }
}

// Writes what comes next; false when there is nothing to write now.
bool Sender::write_one(Clock::time_point now) {
  if (state_ == State::kLeaving) {
    stream_->writes_done();
    return false;
  }
  Outbox& from = outbox();
  if (table_sent_ < from.buffer.table().size()) {  // holds every tensor of the reports that were collected
    send(from.buffer.table()[table_sent_++]);
    return true;
  }
  from.buffer.thin_overdue(now);
  if (const SendBuffer::Item* item = from.buffer.next()) {
    if (item->message.size() > max_message_bytes_) {
      from.buffer.too_large();
      return true;
    }
    if (item->message.empty()) {
      send(pack_loss(item->first_seq, item->last_seq, item->cause));
    } else {
      send(item->message);
      ++status_.reports_sent;
    }
    from.buffer.sent();
    return true;
  }
  // All was sent: the server ends the stream once it is durable.
  if (!left_over_.empty()) {
    send(pack_goodbye(from.buffer.last_seq(), "ended without a goodbye; the rest came out of its spool"));
    state_ = State::kLeaving;
    return true;
  }
  if (mail().closing && mail().attempts.empty()) {
    if (mail().say_goodbye) send(pack_goodbye(from.buffer.last_seq(), mail().reason));
    state_ = State::kLeaving;
    return true;
  }
  if (now - last_write_ >= kHeartbeat) {
    send(pack_heartbeat(mailbox_.phase()));
    return true;
  }
  return false;
}

void Sender::send(const std::string& message) {
  stream_->write(message);
  last_write_ = Clock::now();
}

void Sender::on_end(const Stream::End& end, Clock::time_point now) {
  const bool done = outbox().buffer.all_durable();
  // A goodbye that a server took with it into its own end is said again: without it the run would count as lost.
  const bool said = left_over_.empty() && (end.code == 0 || (done && !mail().say_goodbye));
  const bool left = state_ == State::kLeaving && (said || (done && !left_over_.empty()));
  const bool settled = (state_ == State::kLive || state_ == State::kLeaving) && now - live_since_ >= kSettled;
  stream_.reset();
  if (left) {
    if (!left_over_.empty()) return next_outbox(now);
    state_ = State::kOver;
    return;
  }
  if (settled) failures_ = 0;
  if (!end.message.empty()) status_.last_fault = one_line(end.message);
  if (!failure_said_) {
    failure_said_ = true;
    log_line("no connection to " + servers_.current() + " (" + (end.message.empty() ? "stream ended" : one_line(end.message)) +
             "); training goes on, and what fits into the buffer is sent later");
  }
  servers_.failed();
  retry(now);
}

// Another server has the run. That is no failure, as long as it doesn't go round.
void Sender::move(const std::string& owner, Clock::time_point now) {
  if (!servers_.moved(owner)) return;  // the stream ends, which is a failure
  stream_.reset();
  state_ = State::kWaiting;
  status_.connection = SCALEWATCH_WAITING;
  retry_at_ = now + jitter(kMoveJitter * (1 << servers_.moves()));
}

// Full jitter: anywhere up to a bound that doubles with each failure.
void Sender::retry(Clock::time_point now) {
  state_ = State::kWaiting;
  status_.connection = SCALEWATCH_WAITING;
  milliseconds bound = std::min(kLongestBackoff, kFirstBackoff * (1 << std::min(rounds_failed(), 6U)));
  if (mail().closing) bound = std::min(bound, kClosingBackoff);
  ++failures_;
  retry_at_ = now + jitter(bound);
}

milliseconds Sender::jitter(milliseconds bound) {
  return milliseconds(std::uniform_int_distribution<std::int64_t>(0, bound.count())(random_));
}

Sender::Clock::time_point Sender::next_deadline() const {
  const auto now = Clock::now();
  auto next = now + kHeartbeat;
  if (stopped_) return next;
  if (state_ == State::kWaiting) next = std::min(next, retry_at_);
  if (state_ == State::kGreeting) next = std::min(next, greeting_until_);
  if (mail().closing) next = std::min(next, mail().deadline);
  // An overdue heartbeat waits for the transport to take the write before, and that wakes this thread.
  const auto heartbeat = last_write_ + kHeartbeat;
  if (state_ == State::kLive && heartbeat > now) next = std::min(next, heartbeat);
  return std::min(next, now + kPoll);
}

void Sender::publish() {
  const SendBuffer& buffer = own_.buffer;
  status_.durable_attempts = buffer.durable_attempts();
  std::ranges::copy(buffer.counters().dropped, status_.dropped);
  status_.buffered_bytes = buffer.bytes();
  status_.spooled_bytes = buffer.spooled_bytes();
  status_.client_thread_ns = thread_cpu_ns();
  Status said = status_;
  said.reports_thinned += buffer.counters().thinned;
  mailbox_.publish(said);
}

}  // namespace scalewatch::client
