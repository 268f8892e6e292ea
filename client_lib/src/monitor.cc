#include "client_lib/src/monitor.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <exception>
#include <utility>

#include "client_lib/include/scalewatch/scalewatch.h"
#include "client_lib/src/fork_guard.h"

namespace scalewatch::client {
namespace {

constexpr std::size_t kMaxScalers = 64;
constexpr std::size_t kMaxOptimizers = 256;
constexpr std::uint64_t kQueueShare = 4;  // the queue between the threads gets a fourth of the buffer's bytes

// Beyond its deadline the client's thread only cancels its stream and closes files. One that can't (a dead network disk under
// the spool) is left behind: the trainer does not wait for it.
constexpr std::chrono::seconds kGrace{5};

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

Monitor::Monitor(Opening opening)
    : generation_(fork_generation()),
      options_(std::move(opening.sender)),
      identity_(std::move(opening.identity)),
      mailbox_(options_.buffer_bytes / kQueueShare),
      recorder_(mailbox_, identity_.compute_dtype, opening.measure_threads, opening.histogram_every),
      histograms_(opening.histogram_every != 0) {
  options_.buffer_bytes -= options_.buffer_bytes / kQueueShare;
}

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

void Monitor::require_scaler(std::uint32_t id) const {
  if (id >= identity_.scalers.size()) throw Refused(SCALEWATCH_INVALID_ARGUMENT, "unknown scaler: add_scaler gives the id");
}

void Monitor::begin(std::int64_t step) {
  if (closed_) throw Refused(SCALEWATCH_WRONG_STATE, "the process is ending");  // only its exit closes without freeing
  if (!started_) {
    if (!std::exchange(prepared_, true)) mailbox_.prepare(identity_.scalers.size(), identity_.optimizers.size(), histograms_);
    const SignalsBlocked blocked;
    thread_ = std::thread([this] {
      pthread_setname_np(pthread_self(), "scalewatch");
      try {
        Sender(mailbox_, options_, identity_, recorder_.sampling(), recorder_.devices()).run();
        // Here, because freeing waits for what the GPUs still have to do, and close() does not wait for ever for this thread.
        // At the end of the process the driver frees by itself.
        if (mailbox_.saying_goodbye()) recorder_.devices().release();
      } catch (const std::exception& e) {  // out of memory, say: the trainer goes on without monitoring
        Status status = mailbox_.status();
        status.stopped = true;
        status.connection = SCALEWATCH_CONN_STOPPED;
        status.last_fault = e.what();
        mailbox_.publish(status);
      }
      mailbox_.finish();
    });
    started_ = true;
  }
  recorder_.begin(step);
}

bool Monitor::close(Mailbox::Clock::duration flush, std::string reason, bool say_goodbye) {
  start_closing(Mailbox::Clock::now() + flush, std::move(reason), say_goodbye);
  return finish_closing();
}

void Monitor::start_closing(Mailbox::Clock::time_point deadline, std::string reason, bool say_goodbye) {
  closed_ = true;
  if (!thread_.joinable()) return;
  if (recorder_.attempt_is_open() && say_goodbye) recorder_.end();
  deadline_ = deadline;
  asked_ = mailbox_.close(deadline, std::move(reason), say_goodbye);
}

bool Monitor::finish_closing() {
  if (!thread_.joinable()) return true;
  if (!asked_ || !mailbox_.wait_finished(deadline_ + kGrace)) {
    thread_.detach();
    abandoned_ = true;
    return false;
  }
  thread_.join();
  return mailbox_.status().durable_attempts >= recorder_.counters().attempts.load();
}

}  // namespace scalewatch::client
