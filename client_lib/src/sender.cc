#include "client_lib/src/sender.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "client_lib/include/scalewatch/scalewatch.h"

namespace scalewatch::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kFirstBackoff{500};
constexpr milliseconds kLongestBackoff{30'000};
constexpr milliseconds kClosingBackoff{200};  // longest wait between tries while the trainer waits in close
constexpr seconds kGreetingTimeout{10};
constexpr seconds kHeartbeat{5};
constexpr seconds kSettled{10};                         // a stream that lived as long was no failure
constexpr std::uint32_t kUsualMessageBytes = 4U << 20;  // until the server says its limit
constexpr std::uint32_t kTableChunkBytes = 1U << 20;
constexpr std::size_t kMaxFaultText = 255;

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

}  // namespace

Sender::Sender(Mailbox& mailbox, std::string server, Identity identity, std::uint64_t buffer_bytes)
    : mailbox_(mailbox),
      server_(std::move(server)),
      identity_(std::move(identity)),
      buffer_(buffer_bytes),
      max_message_bytes_(kUsualMessageBytes),
      random_(static_cast<unsigned>(identity_.incarnation_order) ^ identity_.rank) {}

void Sender::run() {
  retry_at_ = Clock::now();
  while (state_ != State::kOver) {
    collect();
    step(Clock::now());
    publish();
    if (state_ != State::kOver) mailbox_.wait_until(next_deadline());
  }
  stream_.reset();
  status_.connection = stopped_ ? SCALEWATCH_CONN_STOPPED : SCALEWATCH_CLOSED;
  publish();
}

void Sender::collect() {
  mailbox_.take(mail_);
  for (TensorInfo& info : mail_.tensors) {
    table_hash_.add(info);
    table_.push_back(std::move(info));
  }
  if (!stopped_) {
    for (const auto& attempt : mail_.attempts) {
      const ReportCounters counters{status_.reports_sent, buffer_.counters().dropped_total(), buffer_.bytes()};
      const bool full = !attempt->measured.empty();
      buffer_.add_report(attempt->seq, full, packer_.pack(*attempt, counters));
    }
    if (mail_.lost_first != 0) {
      for (std::uint64_t seq = mail_.lost_first; seq <= mail_.lost_last; ++seq) buffer_.add_loss(seq, LossCause::kQueueFull);
    }
  }
  if (mail_.closing && !leaving_noted_) {
    leaving_noted_ = true;
    retry_at_ = std::min(retry_at_, Clock::now());
  }
}

void Sender::step(Clock::time_point now) {
  if (stream_) receive(now);
  if (stopped_) {
    stream_.reset();
    state_ = mail_.closing ? State::kOver : State::kWaiting;
    return;
  }
  if (mail_.closing && now >= mail_.deadline) {
    state_ = State::kOver;
    return;
  }
  if (state_ == State::kWaiting && mail_.closing && !mail_.say_goodbye && buffer_.all_durable()) {
    state_ = State::kOver;
    return;
  }
  if (state_ == State::kWaiting && now >= retry_at_) connect(now);
  if (stream_) write(now);
}

void Sender::connect(Clock::time_point now) {
  if (mail_.closing && status_.connects == 0 && tries_closing_ > 0) {
    state_ = State::kOver;  // the server was never there
    return;
  }
  if (mail_.closing) ++tries_closing_;
  status_.connection = SCALEWATCH_CONNECTING;
  stream_ = std::make_unique<Stream>(server_, [&mailbox = mailbox_] { mailbox.wake(); });
  state_ = State::kGreeting;
  greeting_until_ = now + kGreetingTimeout;
  table_greeted_ = table_hash_.size();
  send(pack_hello(identity_, table_hash_, buffer_.last_seq()));
}

void Sender::receive(Clock::time_point now) {
  for (;;) {
    const std::optional<std::string> bytes = stream_->read();
    if (!bytes) break;
    const auto message = unpack(*bytes);
    if (!message) {
      status_.last_fault = "the server sent bytes that are no message of this protocol";
      stream_.reset();
      retry(now);
      return;
    }
    if (const auto* hello = std::get_if<HelloAck>(&*message)) handle(*hello, now);
    if (const auto* ack = std::get_if<Ack>(&*message)) handle(*ack);
    if (const auto* fault = std::get_if<Fault>(&*message)) handle(*fault);
    if (const auto* directive = std::get_if<Directive>(&*message); directive != nullptr && directive->stop) {
      stop("the server asked it to stop reporting");
    }
    if (stopped_) return;
  }
  if (const auto end = stream_->end()) {
    on_end(*end, now);
  } else if (state_ == State::kGreeting && now >= greeting_until_) {
    on_end({0, "the server accepted the connection and did not answer"}, now);
  }
}

void Sender::handle(const HelloAck& ack, Clock::time_point now) {
  if (state_ != State::kGreeting) return;
  if (ack.stop) return stop("the server asked it to stop reporting");
  state_ = State::kLive;
  live_since_ = now;
  failure_said_ = false;
  ++status_.connects;
  status_.connection = SCALEWATCH_CONNECTED;
  if (ack.max_message_bytes != 0) max_message_bytes_ = ack.max_message_bytes;
  buffer_.resume(ack.resume_after_seq);
  table_sent_ = ack.need_table ? 0 : table_greeted_;
}

void Sender::handle(const Ack& ack) {
  if (ack.durable_seq > buffer_.durable_seq()) failures_ = 0;
  buffer_.durable(ack.durable_seq);
}

void Sender::handle(const Fault& fault) {
  status_.last_fault_cause = fault.cause;
  status_.last_fault = one_line(fault.message);
  if (fault.cause == FaultCause::kBadReport) {
    buffer_.reject(fault.seq);
  } else if (for_good(fault.cause)) {
    stop(status_.last_fault);
  }
}

void Sender::stop(std::string_view why) {
  stopped_ = true;
  status_.stopped = true;
  status_.connection = SCALEWATCH_CONN_STOPPED;
  if (status_.last_fault.empty()) status_.last_fault = why;
  log_.line("monitoring of run '" + identity_.run + "' rank " + std::to_string(identity_.rank) +
            " stopped for good; training goes on: " + std::string(why));
  const std::uint64_t durable = buffer_.durable_seq();
  buffer_ = SendBuffer(0);
  status_.durable_seq = durable;
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
  if (table_sent_ < table_.size()) {  // holds every tensor of the reports that were collected
    write_table();
    return true;
  }
  if (const SendBuffer::Item* item = buffer_.next()) {
    if (item->message.size() > max_message_bytes_) {
      buffer_.too_large();
    } else if (item->message.empty()) {
      send(pack_loss(item->first_seq, item->last_seq, item->cause));
      buffer_.sent();
    } else {
      send(item->message);
      buffer_.sent();
      ++status_.reports_sent;
    }
    return true;
  }
  if (mail_.closing) {  // all was sent: the server ends the stream once it is durable
    if (mail_.say_goodbye) send(pack_goodbye(buffer_.last_seq(), mail_.reason));
    state_ = State::kLeaving;
    return true;
  }
  if (now - last_write_ >= kHeartbeat) {
    send(pack_heartbeat(mailbox_.phase()));
    return true;
  }
  return false;
}

// Sends the next piece of the table, a few names less than the server's limit.
void Sender::write_table() {
  const std::size_t limit = std::min(kTableChunkBytes, max_message_bytes_) / 2;
  std::size_t size = 0;
  std::size_t end = table_sent_;
  while (end < table_.size() && (size == 0 || size < limit)) {
    const TensorInfo& info = table_[end++];
    size += 48 + info.name.size() + info.shard.size() + info.replica.size() + info.optimizer.size();
  }
  const auto infos = std::span(table_).subspan(table_sent_, end - table_sent_);
  send(pack_table(++table_version_, table_sent_, infos));
  table_sent_ = static_cast<std::uint32_t>(end);
}

void Sender::send(const std::string& message) {
  stream_->write(message);
  last_write_ = Clock::now();
}

void Sender::on_end(const Stream::End& end, Clock::time_point now) {
  const bool left = state_ == State::kLeaving && (end.code == 0 || buffer_.all_durable());
  const bool settled = (state_ == State::kLive || state_ == State::kLeaving) && now - live_since_ >= kSettled;
  stream_.reset();
  if (left) {
    state_ = State::kOver;
    return;
  }
  if (settled) failures_ = 0;
  if (!end.message.empty()) status_.last_fault = one_line(end.message);
  if (!failure_said_) {
    failure_said_ = true;
    log_.line("no connection to " + server_ + " (" + (end.message.empty() ? "stream ended" : one_line(end.message)) +
              "); training goes on, and what fits into the buffer is sent later");
  }
  retry(now);
}

// Full jitter: anywhere up to a bound that doubles with each failure.
void Sender::retry(Clock::time_point now) {
  state_ = State::kWaiting;
  status_.connection = SCALEWATCH_WAITING;
  milliseconds bound = std::min(kLongestBackoff, kFirstBackoff * (1 << std::min(failures_, 6U)));
  if (mail_.closing) bound = std::min(bound, kClosingBackoff);
  ++failures_;
  retry_at_ = now + milliseconds(std::uniform_int_distribution<std::int64_t>(0, bound.count())(random_));
}

Sender::Clock::time_point Sender::next_deadline() const {
  const auto now = Clock::now();
  auto next = now + kHeartbeat;
  if (stopped_) return next;
  if (state_ == State::kWaiting) next = std::min(next, retry_at_);
  if (state_ == State::kGreeting) next = std::min(next, greeting_until_);
  if (mail_.closing) next = std::min(next, mail_.deadline);
  // An overdue heartbeat waits for the transport to take the write before, and that wakes this thread.
  const auto heartbeat = last_write_ + kHeartbeat;
  if (state_ == State::kLive && heartbeat > now) next = std::min(next, heartbeat);
  return next;
}

void Sender::publish() {
  if (!stopped_) {
    status_.durable_seq = buffer_.durable_seq();
    status_.reports_thinned = buffer_.counters().thinned;
    std::copy(std::begin(buffer_.counters().dropped), std::end(buffer_.counters().dropped), std::begin(status_.dropped));
  }
  status_.buffered_bytes = buffer_.bytes();
  mailbox_.publish(status_);
}

}  // namespace scalewatch::client
