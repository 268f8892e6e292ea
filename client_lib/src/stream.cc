#include "client_lib/src/stream.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/channel_arguments.h>
#include <grpcpp/support/client_callback.h>
#include <grpcpp/support/slice.h>

#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

namespace scalewatch::client {
namespace {

constexpr char kMethod[] = "/scalewatch.v1.Ingest/Stream";
constexpr int kMaxReceivedBytes = 1 << 20;
// A ping after this long without traffic. gRPC servers refuse more frequent ones by default; with heartbeats every 5 s it is
// the timeout that matters: the kernel gives the connection up when sent bytes stay unacknowledged for that long.
constexpr int kKeepaliveMs = 310'000;
constexpr int kKeepaliveTimeoutMs = 20'000;

std::shared_ptr<grpc::Channel> connect(const std::string& server, const Security& security) {
  grpc::ChannelArguments args;
  args.SetUserAgentPrefix("scalewatch-client/" SCALEWATCH_VERSION_TEXT);  // what Hello has no field for
  args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  args.SetMaxReceiveMessageSize(kMaxReceivedBytes);
  args.SetMaxSendMessageSize(-1);  // bounded by Limits.max_message_bytes instead
  // Its own connection: no back-off shared with other channels of the process, and this client keeps its own.
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  args.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  if (on_this_machine(server)) args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  if (!security.tls) return grpc::CreateCustomChannel(server, grpc::InsecureChannelCredentials(), args);
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = security.authorities;
  options.pem_cert_chain = security.certificate;
  options.pem_private_key = security.key;
  return grpc::CreateCustomChannel(server, grpc::SslCredentials(options), args);
}

}  // namespace

// gRPC's side. A hold keeps the call open for operations from outside until the read side has ended.
class Stream::Call final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  Call(const std::string& server, const Security& security, std::function<void()> wake)
      : wake_(std::move(wake)), channel_(connect(server, security)), stub_(channel_) {
    if (!security.token.empty() && (security.tls || on_this_machine(server))) {
      context_.AddMetadata("authorization", "Bearer " + security.token);
    }
    stub_.PrepareBidiStreamingCall(&context_, kMethod, {}, this);
    AddHold();
    StartRead(&incoming_);
    StartCall();
  }

  ~Call() override {
    context_.TryCancel();
    bool unread = false;
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
      unread = received_.has_value();
    }
    if (unread) RemoveHold();  // no read is on its way that could give it up
    std::unique_lock lock(mutex_);
    done_changed_.wait(lock, [this] { return done_; });
  }

  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  bool can_write() const {
    const std::lock_guard lock(mutex_);
    return !writing_ && !read_ended_ && !half_closed_;
  }

  void write(const std::string& message) {
    if (!begin_operation(&writing_)) return;
    const grpc::Slice slice(message);
    outgoing_ = grpc::ByteBuffer(&slice, 1);
    StartWrite(&outgoing_);
    RemoveHold();
  }

  void writes_done() {
    if (!begin_operation(&half_closed_)) return;
    StartWritesDone();
    RemoveHold();
  }

  std::optional<std::string> read() {
    std::string message;
    {
      const std::lock_guard lock(mutex_);
      if (!received_) return std::nullopt;
      message = std::move(*received_);
      received_.reset();
    }
    StartRead(&incoming_);  // the hold is still there: only a failed read gives it up
    return message;
  }

  std::optional<End> end() const {
    const std::lock_guard lock(mutex_);
    return done_ ? std::optional<End>(end_) : std::nullopt;
  }

 private:
  // Takes a hold for an operation from outside, unless the call is over.
  bool begin_operation(bool* flag) {
    const std::lock_guard lock(mutex_);
    if (read_ended_) return false;
    *flag = true;
    AddHold();
    return true;
  }

  void OnReadDone(bool ok) override {
    std::string message;
    if (ok) {
      std::vector<grpc::Slice> slices;
      if (incoming_.Dump(&slices).ok()) {
        message.reserve(incoming_.Length());
        for (const grpc::Slice& slice : slices) message.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
      }
    }
    bool over = false;
    {
      const std::lock_guard lock(mutex_);
      over = !ok || closing_;
      if (over) {
        read_ended_ = true;
      } else {
        received_ = std::move(message);
      }
    }
    wake_();
    if (over) RemoveHold();  // last: the call may be gone afterwards
  }

  void OnWriteDone(bool /*ok: a failed write shows as the end of the stream*/) override {
    {
      const std::lock_guard lock(mutex_);
      writing_ = false;
    }
    wake_();
  }

  void OnDone(const grpc::Status& status) override {
    const std::lock_guard lock(mutex_);
    end_ = {static_cast<int>(status.error_code()), status.error_message()};
    done_ = true;
    wake_();  // under the lock, as the next line: the destructor may run as soon as it is released
    done_changed_.notify_all();
  }

  std::function<void()> wake_;
  std::shared_ptr<grpc::Channel> channel_;
  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  grpc::ByteBuffer incoming_;
  grpc::ByteBuffer outgoing_;
  mutable std::mutex mutex_;
  std::condition_variable done_changed_;
  std::optional<std::string> received_;
  End end_;
  bool writing_ = false;
  bool half_closed_ = false;
  bool read_ended_ = false;
  bool closing_ = false;
  bool done_ = false;
};

Stream::Stream(const std::string& server, const Security& security, std::function<void()> wake)
    : call_(std::make_unique<Call>(server, security, std::move(wake))) {}
Stream::~Stream() = default;

bool Stream::can_write() const {
  return call_->can_write();
}
void Stream::write(const std::string& message) {
  call_->write(message);
}
void Stream::writes_done() {
  call_->writes_done();
}
std::optional<std::string> Stream::read() {
  return call_->read();
}
std::optional<Stream::End> Stream::end() const {
  return call_->end();
}

}  // namespace scalewatch::client
