#include "server/cli/log_sender.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <variant>

#include "scalewatch/v1/ingest.grpc.pb.h"
#include "server/cli/log_report.h"
#include "server/logimport/log_run.h"
#include "server/names/escape.h"

namespace scalewatch::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kConnect{10};
constexpr std::chrono::seconds kBeat{5};
constexpr std::chrono::seconds kPatience{60};  // for a server that is gone, or stores nothing
constexpr std::chrono::milliseconds kPause{500};

std::string random_bytes(std::size_t count) {
  std::random_device device;
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(device() & 0xFFU);
  return bytes;
}

std::int64_t unix_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

bool comes_back(v1::FaultCause cause) {
  return cause == v1::FAULT_CAUSE_UNSPECIFIED || cause == v1::FAULT_CAUSE_SHUTTING_DOWN || cause == v1::FAULT_CAUSE_SEQ_GAP;
}

// One connection. Its own threads read acks and beat; it is over when the server ends it.
class Link {
 public:
  Link(const Client& client, const v1::Hello& hello) : stub_(v1::Ingest::NewStub(client.channel())) {
    if (!client.channel()->WaitForConnected(std::chrono::system_clock::now() + kConnect)) {
      client.fail({grpc::StatusCode::UNAVAILABLE, "failed to connect"});
    }
    stream_ = stub_->Stream(&context_);
    v1::ClientMessage first;
    *first.mutable_hello() = hello;
    v1::ServerMessage answer;
    stream_->Write(first);
    while (stream_->Read(&answer)) {
      if (answer.has_fault()) fault_ = answer.fault();
      if (!answer.has_hello_ack()) continue;
      ack_ = answer.hello_ack();
      durable_ = ack_.resume_after_seq();
      reader_ = std::thread([this] { read(); });
      beater_ = std::thread([this] { beat(); });
      return;
    }
    const grpc::Status status = stream_->Finish();
    if (fault_) throw CallError(names::escape(fault_->message()), kExitNothing);
    client.fail(status.ok() ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "it ended the stream") : status);
  }
  ~Link() {
    context_.TryCancel();
    reader_.join();
    beater_.join();
    stream_->Finish();
  }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  [[nodiscard]] const v1::HelloAck& hello_ack() const { return ack_; }

  bool write(const v1::ClientMessage& message) {
    std::lock_guard lock(write_mutex_);
    return stream_->Write(message);
  }
  // Until `seq` is stored, or the server ends the stream, or stores nothing for too long. Returns what is stored.
  std::uint64_t wait_for(std::uint64_t seq) {
    std::unique_lock lock(mutex_);
    auto until = Clock::now() + kPatience;
    for (std::uint64_t before = durable_; durable_ < seq && !over_;) {
      if (changed_.wait_until(lock, until) == std::cv_status::timeout) break;
      if (durable_ > before) until = Clock::now() + kPatience;
      before = durable_;
    }
    return durable_;
  }
  // After a goodbye: the server ends the stream once all is stored.
  bool wait_for_end() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return over_; });
  }
  [[nodiscard]] std::uint64_t durable() const {
    std::lock_guard lock(mutex_);
    return durable_;
  }
  [[nodiscard]] bool over() const {
    std::lock_guard lock(mutex_);
    return over_;
  }
  [[nodiscard]] std::uint64_t refused() const {
    std::lock_guard lock(mutex_);
    return refused_;
  }
  [[nodiscard]] std::optional<v1::Fault> fault() const {
    std::lock_guard lock(mutex_);
    return fault_;
  }

 private:
  void read() {
    v1::ServerMessage message;
    while (stream_->Read(&message)) {
      std::lock_guard lock(mutex_);
      if (message.has_ack()) durable_ = std::max(durable_, message.ack().durable_seq());
      if (message.has_fault() && message.fault().cause() == v1::FAULT_CAUSE_BAD_REPORT) {
        ++refused_;
      } else if (message.has_fault()) {
        fault_ = message.fault();
      }
      changed_.notify_all();
    }
    std::lock_guard lock(mutex_);
    over_ = true;
    changed_.notify_all();
  }
  void beat() {
    v1::ClientMessage message;
    message.mutable_heartbeat()->set_phase(v1::PHASE_TRAIN);
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, kBeat, [&] { return over_; })) {
      lock.unlock();
      write(message);
      lock.lock();
    }
  }

  std::unique_ptr<v1::Ingest::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::ClientMessage, v1::ServerMessage>> stream_;
  v1::HelloAck ack_;
  std::mutex write_mutex_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t durable_ = 0;
  std::uint64_t refused_ = 0;
  bool over_ = false;
  std::optional<v1::Fault> fault_;
  std::thread reader_;
  std::thread beater_;
};

}  // namespace

struct LogSender::Impl {
  Impl(const Client& to, std::string name, bool is_recorded) : client(to), run(std::move(name)), recorded(is_recorded) {}

  const Client& client;
  const std::string run;
  const bool recorded;
  std::unique_ptr<Link> link;
  v1::Hello hello;     // of the segment that is sent
  bool begun = false;  // it was sent
  std::deque<v1::Report> unstored;
  std::uint64_t seq = 0;
  std::uint64_t stored = 0;  // of segments that are over
  std::uint64_t refused = 0;
  std::string run_uid;
  std::uint32_t segment = 0;

  void new_segment() {
    hello = v1::Hello();
    hello.set_protocol_version(1);
    hello.set_run(run);
    hello.set_world_size(1);
    hello.set_incarnation(random_bytes(16));
    hello.set_incarnation_order(static_cast<std::uint64_t>(unix_ns()));
    hello.set_start_time_ms(unix_ns() / 1'000'000);
    hello.set_pid(static_cast<std::uint32_t>(getpid()));
    hello.set_framework(std::string(logimport::kFramework));
    hello.set_from_log(true);
    if (recorded) (*hello.mutable_labels())[domain::kImportedLabel] = "true";
    begun = false;
    seq = 0;
    unstored.clear();
  }

  void forget_stored() {
    const std::uint64_t durable = link->durable();
    while (!unstored.empty() && unstored.front().seq() <= durable) unstored.pop_front();
  }

  void connect() {
    hello.set_last_seq(seq);
    link = std::make_unique<Link>(client, hello);
    run_uid = link->hello_ack().run_uid();
    segment = link->hello_ack().segment();
    begun = true;
    forget_stored();
    v1::ClientMessage message;
    for (const v1::Report& report : unstored) {
      *message.mutable_report() = report;
      if (!link->write(message)) return;  // it is over: whoever waits next connects again
    }
  }

  void drop_link() {
    forget_stored();
    refused += link->refused();
    link.reset();
  }

  // Once there is a server again.
  void connect_again() {
    const auto until = Clock::now() + kPatience;
    for (;;) {
      if (const auto fault = link ? link->fault() : std::nullopt; fault && !comes_back(fault->cause())) {
        throw CallError(names::escape(fault->message()), kExitNothing);
      }
      if (link) drop_link();
      try {
        return connect();
      } catch (const CallError&) {
        if (Clock::now() >= until) throw;
        std::this_thread::sleep_for(kPause);
      }
    }
  }

  void send(v1::Report report) {
    report.set_seq(++seq);
    if (!link) connect();
    v1::ClientMessage message;
    *message.mutable_report() = report;
    unstored.push_back(std::move(report));
    if (!link->write(message)) connect_again();
    make_room(kMaxUnstored);
  }

  // Waits until no more than so many reports are not stored.
  void make_room(std::size_t most) {
    forget_stored();
    while (unstored.size() > most) {
      const std::uint64_t wanted = unstored[unstored.size() - most - 1].seq();
      if (link->wait_for(wanted) < wanted) {
        if (!link->over()) throw CallError("scalewatchd has stored nothing for a minute: see its log", kExitNothing);
        connect_again();
      }
      forget_stored();
    }
  }

  void goodbye(const std::string& reason) {
    if (!begun) return;
    make_room(0);
    v1::ClientMessage message;
    message.mutable_goodbye()->set_last_seq(seq);
    message.mutable_goodbye()->set_reason(reason);
    while (!link->write(message)) connect_again();
    link->wait_for_end();
    stored += seq;
    refused += link->refused();
    link.reset();
    begun = false;
  }
};

LogSender::LogSender(const Client& client, std::string run, bool recorded)
    : impl_(std::make_unique<Impl>(client, std::move(run), recorded)) {}
LogSender::~LogSender() = default;

void LogSender::take(const domain::Input& input) {
  if (std::holds_alternative<domain::SegmentOpened>(input)) {
    impl_->new_segment();
  } else if (const auto* digest = std::get_if<domain::AttemptDigest>(&input)) {
    // A run's page names its scalers from the beginning, where the log does.
    if (!impl_->begun) {
      for (const domain::ScalerInfo& scaler : digest->declared) *impl_->hello.add_scalers() = to_proto(scaler);
    }
    impl_->send(to_report(*digest));
  } else if (const auto* left = std::get_if<domain::RankLeft>(&input)) {
    impl_->goodbye(left->reason);
  }
}

std::uint64_t LogSender::reports() const {
  return impl_->stored - impl_->refused;
}
std::uint64_t LogSender::refused() const {
  return impl_->refused;
}
const std::string& LogSender::run_uid() const {
  return impl_->run_uid;
}
std::uint32_t LogSender::segment() const {
  return impl_->segment;
}

}  // namespace scalewatch::cli
