#include "client_lib/src/monitor.h"

#include <pthread.h>

#include <algorithm>
#include <csignal>
#include <exception>
#include <utility>

#include "client_lib/include/scalewatch/scalewatch.h"
#include "client_lib/src/fork_guard.h"
#include "client_lib/src/sender.h"

namespace scalewatch::client {
namespace {

constexpr std::size_t kMaxScalers = 64;
constexpr std::size_t kMaxOptimizers = 256;
constexpr std::uint64_t kQueueShare = 4;  // the queue between the threads gets a fourth of the buffer's bytes

// Signals go to the trainer's threads: gRPC's threads inherit the mask from the client's.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

Monitor::Monitor(std::string server, Identity identity, std::uint64_t buffer_bytes)
    : generation_(fork_generation()),
      server_(std::move(server)),
      buffer_bytes_(buffer_bytes),
      identity_(std::move(identity)),
      mailbox_(buffer_bytes / kQueueShare),
      recorder_(mailbox_, identity_.compute_dtype) {}

Monitor::~Monitor() {
  close({}, {}, false);
}

std::uint32_t Monitor::add_scaler(ScalerInfo info) {
  if (started_) throw Refused(SCALEWATCH_WRONG_STATE, "scalers are added before the first attempt begins");
  if (identity_.scalers.size() >= kMaxScalers) throw Refused(SCALEWATCH_LIMIT, "a monitor takes at most 64 scalers");
  if (std::ranges::any_of(identity_.scalers, [&](const ScalerInfo& s) { return s.name == info.name; })) {
    throw Refused(SCALEWATCH_INVALID_ARGUMENT, "scaler '" + info.name + "' was already added");
  }
  identity_.scalers.push_back(std::move(info));
  return static_cast<std::uint32_t>(identity_.scalers.size() - 1);
}

std::uint32_t Monitor::add_optimizer(OptimizerInfo info) {
  if (started_) throw Refused(SCALEWATCH_WRONG_STATE, "optimizers are added before the first attempt begins");
  if (identity_.optimizers.size() >= kMaxOptimizers) {
    throw Refused(SCALEWATCH_LIMIT, "a monitor takes at most 256 optimizers");
  }
  if (info.scaler >= identity_.scalers.size()) {
    throw Refused(SCALEWATCH_INVALID_ARGUMENT, "optimizer '" + info.name + "' names a scaler that was not added");
  }
  if (std::ranges::any_of(identity_.optimizers, [&](const OptimizerInfo& o) { return o.name == info.name; })) {
    throw Refused(SCALEWATCH_INVALID_ARGUMENT, "optimizer '" + info.name + "' was already added");
  }
  identity_.optimizers.push_back(std::move(info));
  return static_cast<std::uint32_t>(identity_.optimizers.size() - 1);
}

void Monitor::begin(std::int64_t step) {
  if (!started_) {
    const SignalsBlocked blocked;
    thread_ = std::thread([this] {
      pthread_setname_np(pthread_self(), "scalewatch");
      try {
        Sender(mailbox_, server_, identity_, buffer_bytes_ - buffer_bytes_ / kQueueShare).run();
      } catch (const std::exception& e) {  // out of memory, say: the trainer goes on without monitoring
        Status status = mailbox_.status();
        status.stopped = true;
        status.connection = SCALEWATCH_CONN_STOPPED;
        status.last_fault = e.what();
        mailbox_.publish(status);
      }
    });
    started_ = true;
  }
  recorder_.begin(step);
}

bool Monitor::close(Mailbox::Clock::duration flush, std::string reason, bool say_goodbye) {
  if (!thread_.joinable()) return true;
  if (recorder_.attempt_is_open() && say_goodbye) recorder_.end();
  mailbox_.close(Mailbox::Clock::now() + flush, std::move(reason), say_goodbye);
  thread_.join();
  return mailbox_.status().durable_seq >= recorder_.last_seq();
}

}  // namespace scalewatch::client
