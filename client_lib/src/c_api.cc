// The C ABI over Monitor: checks pointers and texts, turns exceptions into status codes, and keeps forked children out.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <limits>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "client_lib/include/scalewatch/scalewatch.h"
#include "client_lib/src/arguments.h"
#include "client_lib/src/fork_guard.h"
#include "client_lib/src/monitor.h"
#include "client_lib/src/text.h"

struct scalewatch_monitor : scalewatch::client::Monitor {
  using Monitor::Monitor;
};

namespace scalewatch::client {
namespace {

using std::chrono::milliseconds;

constexpr std::int64_t kDefaultFlushMs = 5000;
constexpr std::int64_t kLongestWaitMs = 24LL * 3600 * 1000;
constexpr milliseconds kExitFlush{2000};

thread_local char last_error[512] = "";

int fail(int status, const char* message) noexcept {
  std::snprintf(last_error, sizeof last_error, "%s", message);
  return status;
}

// Runs a call and turns what it throws into a status.
template <class Body>
int guarded(const Body& body) noexcept {
  try {
    return body();
  } catch (const Refused& refused) {
    return fail(refused.status(), refused.what());
  } catch (const std::exception& e) {
    return fail(SCALEWATCH_INTERNAL, e.what());
  } catch (...) {
    return fail(SCALEWATCH_INTERNAL, "unknown error");
  }
}

template <class Body>
int on_monitor(scalewatch_monitor* monitor, const Body& body) noexcept {
  if (monitor == nullptr) return fail(SCALEWATCH_INVALID_ARGUMENT, "monitor is NULL");
  if (monitor->generation() != fork_generation()) {
    return fail(SCALEWATCH_FORKED, "this process is a fork of the one that opened the monitor; it does not report");
  }
  return guarded([&] {
    body(*monitor);
    return static_cast<int>(SCALEWATCH_OK);
  });
}

void require_optimizer(const scalewatch_monitor& m, std::uint32_t scaler, std::uint32_t optimizer, std::int32_t outcome) {
  m.require_scaler(scaler);
  if (optimizer >= m.identity().optimizers.size()) refuse("unknown optimizer: add_optimizer gives the id");
  if (outcome < SCALEWATCH_OUTCOME_UNKNOWN || outcome > SCALEWATCH_SKIPPED) refuse("outcome is no scalewatch_outcome");
}

// Monitors that a process left open when it exits: their threads must end before gRPC's globals do.
class OpenMonitors {
 public:
  // At the end of the process: all at the same time, and nothing begins afterwards.
  void close_all() {
    if (used_by_parent()) return;  // in a forked child, a thread that it does not have may hold the lock for ever
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return;  // exit() in a handler that interrupted open or close: its own thread holds it
    over_ = true;
    const auto deadline = Mailbox::Clock::now() + kExitFlush;
    for (scalewatch_monitor* monitor : monitors_) monitor->start_closing(deadline, {}, false);
    for (scalewatch_monitor* monitor : monitors_) monitor->finish_closing();
  }
  void add(scalewatch_monitor* monitor) {
    const std::lock_guard lock(mutex_);
    if (over_) throw Refused(SCALEWATCH_WRONG_STATE, "the process is ending");
    monitors_.insert(monitor);
    opened_in_ = fork_generation();
    any_ = true;
  }
  void remove(scalewatch_monitor* monitor) {
    const std::lock_guard lock(mutex_);
    monitors_.erase(monitor);
  }
  // gRPC does not survive a fork: once used, it stays with the process that used it.
  bool used_by_parent() { return any_ && opened_in_ != fork_generation(); }

 private:
  std::mutex mutex_;
  std::set<scalewatch_monitor*> monitors_;
  std::atomic<unsigned> opened_in_{0};
  std::atomic<bool> any_{false};
  bool over_ = false;
};

// Never destroyed: a handle may be closed from a destructor that runs later than this library's.
OpenMonitors& open_monitors() {
  static auto* monitors = new OpenMonitors;
  return *monitors;
}
struct AtExit {
  ~AtExit() { open_monitors().close_all(); }
} at_exit;

void add_devices(const Devices& devices, scalewatch_stats& stats) {
  stats.cuda_driver_calls = devices.driver_calls();
  stats.cuda_poll_calls = devices.poll_calls();
  stats.gpu_ns = devices.gpu_ns();
  stats.device_lost_quiet = devices.lost(Devices::Lost::kQuiet);
  stats.device_lost_busy = devices.lost(Devices::Lost::kBusy);
  stats.device_lost_late = devices.lost(Devices::Lost::kLate);
  stats.device_lost_replays = devices.lost(Devices::Lost::kReplays);
  for (int i = 0; i < Devices::kMost && stats.device_fault == 0; ++i) {
    if (const cuda::Device* device = devices.device(i)) stats.device_fault = static_cast<std::int32_t>(device->cause());
  }
}

milliseconds wait_of(std::int64_t ms, std::int64_t usual) {
  return milliseconds(ms < 0 ? usual : std::min(ms, kLongestWaitMs));
}

}  // namespace
}  // namespace scalewatch::client

using namespace scalewatch::client;  // NOLINT(google-build-using-namespace): the ABI's functions are global

const char* scalewatch_version(void) {
  return SCALEWATCH_VERSION_TEXT;
}

const char* scalewatch_last_error(void) {
  return last_error;
}

int scalewatch_open(const scalewatch_options* options, scalewatch_monitor** out) {
  return guarded([&] {
    if (out == nullptr) refuse("out is NULL");
    *out = nullptr;
    watch_forks();
    if (open_monitors().used_by_parent()) {
      throw Refused(SCALEWATCH_FORKED, "a parent of this process opened a monitor before the fork; open it after forking");
    }
    auto monitor = std::make_unique<scalewatch_monitor>(opening_of(options));
    open_monitors().add(monitor.get());
    *out = monitor.release();
    return static_cast<int>(SCALEWATCH_OK);
  });
}

int scalewatch_close(scalewatch_monitor* monitor, int64_t flush_ms, const char* reason) {
  if (monitor == nullptr) return SCALEWATCH_OK;
  bool durable = true;
  bool stopped = false;
  const int status = on_monitor(monitor, [&](scalewatch_monitor& m) {
    open_monitors().remove(monitor);
    std::string why = reason == nullptr ? "finished" : std::string(reason).substr(0, 256);
    if (!is_clean_utf8(why)) why = "finished";
    durable = m.close(wait_of(flush_ms, kDefaultFlushMs), std::move(why), true);
    stopped = m.stopped();
    if (!m.abandoned()) delete monitor;
  });
  if (status != SCALEWATCH_OK) return status;
  if (stopped) return fail(SCALEWATCH_STOPPED, "the server told this client to stop; nothing more was sent");
  return durable ? SCALEWATCH_OK : fail(SCALEWATCH_TIMEOUT, "not every report was durable when the time was over");
}

int scalewatch_add_scaler(scalewatch_monitor* monitor, const char* name, const char* policy,
                          const scalewatch_parameter* parameters, size_t parameter_count, uint32_t* id) {
  return on_monitor(monitor, [&](scalewatch_monitor& m) {
    const std::uint32_t made = m.add_scaler(scaler_of(name, policy, parameters, parameter_count));
    if (id != nullptr) *id = made;
  });
}

int scalewatch_add_optimizer(scalewatch_monitor* monitor, const scalewatch_optimizer* optimizer, uint32_t* id) {
  return on_monitor(monitor, [&](scalewatch_monitor& m) {
    const std::uint32_t made = m.add_optimizer(optimizer_of(optimizer));
    if (id != nullptr) *id = made;
  });
}

int scalewatch_add_sampling(scalewatch_monitor* monitor, const scalewatch_sampling* sampling) {
  return on_monitor(monitor, [&](scalewatch_monitor& m) { m.recorder().add_sampling(rule_of(sampling)); });
}

int scalewatch_add_tensor(scalewatch_monitor* monitor, const scalewatch_tensor* tensor, uint32_t* id) {
  return on_monitor(monitor, [&](scalewatch_monitor& m) {
    const std::uint32_t made = m.recorder().add_tensor(tensor_of(tensor));
    if (id != nullptr) *id = made;
  });
}

int scalewatch_begin_attempt(scalewatch_monitor* monitor, int64_t step) {
  return on_monitor(monitor, [&](scalewatch_monitor& m) { m.begin(step); });
}

int scalewatch_wants(scalewatch_monitor* monitor, uint32_t tensor, int* wanted) {
  return on_monitor(monitor, [&](scalewatch_monitor& m) {
    if (wanted == nullptr) refuse("wanted is NULL");
    *wanted = m.recorder().wanted(tensor) ? 1 : 0;
  });
}

int scalewatch_observe(scalewatch_monitor* monitor, uint32_t tensor, const void* data, uint64_t numel, double scale,
                       int32_t target) {
  return on_monitor(monitor, [&](scalewatch_monitor& m) { m.recorder().observe(tensor, data, numel, scale, target); });
}

int scalewatch_observe_strided(scalewatch_monitor* monitor, uint32_t tensor, const void* data, uint32_t ndim,
                               const uint64_t* sizes, const int64_t* strides, double scale, int32_t target) {
  return on_monitor(monitor, [&](scalewatch_monitor& m) {
    m.recorder().observe(tensor, view_of(data, ndim, sizes, strides), scale, target);
  });
}

int scalewatch_observe_record(scalewatch_monitor* monitor, uint32_t tensor, const scalewatch_record* record, double scale,
                              int32_t target) {
  return on_monitor(monitor, [&](scalewatch_monitor& m) { m.recorder().observe(tensor, record_of(record), scale, target); });
}

int scalewatch_observe_device(scalewatch_monitor* monitor, uint32_t tensor, const void* data, uint64_t numel,
                              const scalewatch_device* on, const scalewatch_device_tensor* how) {
  return on_monitor(monitor, [&](scalewatch_monitor& m) {
    m.recorder().observe_device(tensor, data, numel, place_of(on), measuring_of(how, data, numel));
  });
}

int scalewatch_measure_device(scalewatch_monitor* monitor, uint32_t* graph) {
  if (graph != nullptr) *graph = SCALEWATCH_NO_GRAPH;
  return on_monitor(monitor, [&](scalewatch_monitor& m) {
    const std::uint32_t made = m.recorder().measure_device();
    if (graph != nullptr) *graph = made;
  });
}

int scalewatch_observe_graph(scalewatch_monitor* monitor, uint32_t graph, void* stream) {
  return on_monitor(monitor, [&](scalewatch_monitor& m) {
    m.recorder().observe_graph(graph, static_cast<scalewatch::cuda::Stream>(stream));
  });
}

int scalewatch_observe_scaler_device(scalewatch_monitor* monitor, uint32_t scaler, const scalewatch_device* on,
                                     const scalewatch_device_scaler* state) {
  return on_monitor(monitor, [&](scalewatch_monitor& m) {
    m.require_scaler(scaler);
    const DevicePlace where = place_of(on);
    const scalewatch_device_scaler given = state_of(state);
    const auto observe = [&](const void* at, std::uint32_t kind, ScalarKind meaning) {
      m.recorder().observe_scalar_device(where, reinterpret_cast<std::uint64_t>(at), kind, meaning, scaler, 0);
    };
    m.recorder().scaler(scaler);
    observe(given.scale_before, scalewatch::device::kScalarFloat, ScalarKind::kScaleBefore);
    observe(given.scale_after, scalewatch::device::kScalarFloat, ScalarKind::kScaleAfter);
    observe(given.growth_tracker, scalewatch::device::kScalarInt32, ScalarKind::kGrowthTracker);
  });
}

int scalewatch_observe_optimizer_device(scalewatch_monitor* monitor, uint32_t scaler, uint32_t optimizer,
                                        const scalewatch_device* on, const float* found_inf_local,
                                        const float* found_inf_decided, int32_t outcome) {
  return on_monitor(monitor, [&](scalewatch_monitor& m) {
    require_optimizer(m, scaler, optimizer, outcome);
    const DevicePlace where = place_of(on);
    const auto observe = [&](const float* at, ScalarKind meaning) {
      m.recorder().observe_scalar_device(where, reinterpret_cast<std::uint64_t>(at), scalewatch::device::kScalarFloat, meaning,
                                         scaler, optimizer);
    };
    constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
    m.recorder().optimizer(scaler, optimizer) = {scaler, optimizer, kUnknown, kUnknown, outcome};
    observe(found_inf_local, ScalarKind::kFoundInfLocal);
    observe(found_inf_decided, ScalarKind::kFoundInfDecided);
  });
}

int scalewatch_observe_scaler(scalewatch_monitor* monitor, uint32_t scaler, double scale_before, double scale_after,
                              int64_t growth_tracker, int32_t hysteresis) {
  return on_monitor(monitor, [&](scalewatch_monitor& m) {
    m.require_scaler(scaler);
    m.recorder().scaler(scaler) = {scaler, scale_before, scale_after, growth_tracker, hysteresis};
  });
}

int scalewatch_observe_optimizer(scalewatch_monitor* monitor, uint32_t scaler, uint32_t optimizer, double found_inf_local,
                                 double found_inf_decided, int32_t outcome) {
  return on_monitor(monitor, [&](scalewatch_monitor& m) {
    require_optimizer(m, scaler, optimizer, outcome);
    m.recorder().optimizer(scaler, optimizer) = {scaler, optimizer, found_inf_local, found_inf_decided, outcome};
  });
}

int scalewatch_set_loss(scalewatch_monitor* monitor, double loss) {
  return on_monitor(monitor, [&](scalewatch_monitor& m) { m.recorder().open_attempt().loss = loss; });
}

int scalewatch_set_lr(scalewatch_monitor* monitor, double lr) {
  return on_monitor(monitor, [&](scalewatch_monitor& m) { m.recorder().open_attempt().lr = lr; });
}

int scalewatch_set_grad_norm(scalewatch_monitor* monitor, double norm, int scaled, int clipped) {
  return on_monitor(monitor, [&](scalewatch_monitor& m) {
    Attempt& attempt = m.recorder().open_attempt();
    attempt.grad_norm = norm;
    attempt.grad_norm_scaled = scaled != 0;
    attempt.grad_norm_clipped = clipped != 0;
  });
}

int scalewatch_set_input_non_finite(scalewatch_monitor* monitor, int non_finite) {
  return on_monitor(monitor, [&](scalewatch_monitor& m) { m.recorder().open_attempt().input_non_finite = non_finite != 0; });
}

int scalewatch_set_phase(scalewatch_monitor* monitor, int32_t phase) {
  return on_monitor(monitor, [&](scalewatch_monitor& m) {
    if (phase < SCALEWATCH_PHASE_UNSPECIFIED || phase > SCALEWATCH_INIT) refuse("phase is no scalewatch_phase");
    m.recorder().set_phase(phase);
  });
}

int scalewatch_misuse(scalewatch_monitor* monitor, const char* kind, const char* detail, int raised) {
  return on_monitor(monitor,
                    [&](scalewatch_monitor& m) { m.recorder().misuse(misuse_kind(kind), misuse_detail(detail), raised != 0); });
}

int scalewatch_end_attempt(scalewatch_monitor* monitor) {
  bool sent = true;
  const int status = on_monitor(monitor, [&](scalewatch_monitor& m) { sent = m.recorder().end(); });
  if (status != SCALEWATCH_OK || sent) return status;
  return fail(SCALEWATCH_STOPPED, "the server told this client to stop; see scalewatch_stats.last_fault");
}

int scalewatch_get_stats(scalewatch_monitor* monitor, scalewatch_stats* stats) {
  return on_monitor(monitor, [&](scalewatch_monitor& m) {
    const Status status = m.mailbox().status();
    const auto dropped = [&status](LossCause cause) { return status.dropped[static_cast<std::size_t>(cause)]; };
    const Recorder::Counters& counters = m.recorder().counters();
    scalewatch_stats made{};
    made.connection = status.connection;
    made.last_fault_cause = static_cast<std::int32_t>(status.last_fault_cause);
    made.attempts = counters.attempts;
    made.durable_attempts = status.durable_attempts;
    made.reports_sent = status.reports_sent;
    made.reports_thinned = status.reports_thinned;
    made.dropped_buffer_full = dropped(LossCause::kBufferFull);
    made.dropped_queue_full = dropped(LossCause::kQueueFull);
    made.dropped_too_large = dropped(LossCause::kTooLarge);
    made.dropped_rejected = dropped(LossCause::kRejected);
    made.dropped_internal = dropped(LossCause::kInternal);
    made.dropped_stopped = counters.dropped_stopped + status.dropped_stopped;
    made.dropped_spool_limit = dropped(LossCause::kSpoolLimit);
    made.misuse_dropped = counters.misuse_dropped;
    made.sampled_out = counters.sampled_out;
    made.histograms_lost = counters.histograms_lost + m.recorder().devices().histograms_lost();
    made.buffered_bytes = status.buffered_bytes;
    made.spooled_bytes = status.spooled_bytes;
    made.connects = status.connects;
    made.trainer_thread_ns = counters.trainer_thread_ns;
    made.measure_ns = counters.measure_ns;
    made.client_thread_ns = status.client_thread_ns;
    add_devices(m.recorder().devices(), made);
    std::snprintf(made.last_fault, sizeof made.last_fault, "%s", status.last_fault.c_str());
    hand_out(made, stats);
  });
}

int scalewatch_wait_durable(scalewatch_monitor* monitor, int64_t timeout_ms) {
  bool durable = false;
  bool stopped = false;
  const int status = on_monitor(monitor, [&](scalewatch_monitor& m) {
    durable = m.mailbox().wait_durable(m.recorder().counters().attempts, Mailbox::Clock::now() + wait_of(timeout_ms, 0));
    stopped = m.stopped();
  });
  if (status != SCALEWATCH_OK || durable) return status;
  if (stopped) return fail(SCALEWATCH_STOPPED, "the server told this client to stop");
  return fail(SCALEWATCH_TIMEOUT, "not every report is durable yet");
}
