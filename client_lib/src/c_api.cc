// The C ABI over Monitor: checks pointers and texts, turns exceptions into status codes, and keeps forked children out.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "client_lib/include/scalewatch/scalewatch.h"
#include "client_lib/src/fork_guard.h"
#include "client_lib/src/monitor.h"
#include "client_lib/src/text.h"

using scalewatch::Record;
using scalewatch::Role;
using scalewatch::client::Refused;

struct scalewatch_monitor : scalewatch::client::Monitor {
  using Monitor::Monitor;
};

namespace scalewatch::client {
namespace {

using std::chrono::milliseconds;

constexpr std::int64_t kDefaultFlushMs = 5000;
constexpr std::int64_t kLongestWaitMs = 24LL * 3600 * 1000;
constexpr milliseconds kExitFlush{2000};
constexpr std::uint64_t kDefaultBufferBytes = 64ULL << 20;
constexpr std::uint64_t kSmallestBufferBytes = 64ULL << 10;
constexpr char kDefaultServer[] = "127.0.0.1:7462";

thread_local char last_error[512] = "";

int fail(int status, const char* message) noexcept {
  std::snprintf(last_error, sizeof last_error, "%s", message);
  return status;
}

[[noreturn]] void refuse(const std::string& message) {
  throw Refused(SCALEWATCH_INVALID_ARGUMENT, message);
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
int on(scalewatch_monitor* monitor, const Body& body) noexcept {
  if (monitor == nullptr) return fail(SCALEWATCH_INVALID_ARGUMENT, "monitor is NULL");
  if (monitor->generation() != fork_generation()) {
    return fail(SCALEWATCH_FORKED, "this process is a fork of the one that opened the monitor; it does not report");
  }
  return guarded([&] {
    body(*monitor);
    return static_cast<int>(SCALEWATCH_OK);
  });
}

// A struct of a caller that may be older or newer than this library: what it does not have is zero.
template <class T>
T sized(const T* from, const char* what) {
  if (from == nullptr) refuse(std::string(what) + " is NULL");
  if (from->size < sizeof(std::size_t)) refuse(std::string(what) + "->size is not set");
  T copy{};
  std::memcpy(&copy, from, std::min(from->size, sizeof(T)));
  return copy;
}

std::string text(const char* value, std::size_t min, std::size_t max, const char* what) {
  std::string result = value == nullptr ? "" : value;
  if (result.size() < min || result.size() > max || !is_clean_utf8(result)) {
    refuse(std::string(what) + " must be " + std::to_string(min) + " to " + std::to_string(max) +
           " bytes of UTF-8 without control characters");
  }
  return result;
}

DType dtype(std::int32_t value, bool required, const char* what) {
  if (value < (required ? 1 : 0) || value > SCALEWATCH_E5M2) refuse(std::string(what) + " is no scalewatch_dtype");
  return static_cast<DType>(value);
}

std::string or_env(const char* value, const char* variable) {
  if (value != nullptr) return value;
  const char* found = std::getenv(variable);
  return found == nullptr ? "" : found;
}

std::string server_of(const scalewatch_options& options) {
  const bool given = options.server != nullptr && options.server[0] != '\0';
  std::string server = given ? options.server : or_env(nullptr, "SCALEWATCH_SERVER");
  if (server.empty()) server = kDefaultServer;
  if (!is_server_address(server)) {
    refuse(std::string(given ? "server" : "$SCALEWATCH_SERVER") +
           " must be host:port, e.g. 127.0.0.1:7462, without a scheme or path");
  }
  return server;
}

Identity identity_of(const scalewatch_options& options) {
  Identity identity;
  identity.run = text(options.run, 1, 256, "run");
  identity.rank = options.rank;
  identity.world_size = std::max(options.world_size, 1U);
  if (identity.rank >= identity.world_size) refuse("rank must be less than world_size");
  identity.compute_dtype = dtype(options.compute_dtype, false, "compute_dtype");
  if (identity.compute_dtype == DType::kUnspecified) identity.compute_dtype = DType::kFp16;
  identity.framework = options.framework == nullptr ? "cpp" : text(options.framework, 0, 128, "framework");
  identity.job_id = text(or_env(options.job_id, "SLURM_JOB_ID").c_str(), 0, 128, "job_id");
  identity.gpu_uuid = text(options.gpu_uuid, 0, 128, "gpu_uuid");
  if (options.label_count > 32) refuse("at most 32 labels");
  if (options.label_count > 0 && options.labels == nullptr) refuse("labels is NULL");
  for (std::size_t i = 0; i < options.label_count; ++i) {
    const std::string key = text(options.labels[i].key, 1, 128, "a label's key");
    if (!is_identifier(key)) refuse("label '" + key + "' must look like [a-zA-Z_][a-zA-Z0-9_]*");
    identity.labels.emplace_back(key, text(options.labels[i].value, 0, 512, "a label's value"));
  }
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  identity.incarnation_order = static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
  identity.start_time_ms = std::chrono::duration_cast<milliseconds>(now).count();
  std::random_device random;
  for (int i = 0; i < 16; ++i) identity.incarnation.push_back(static_cast<char>(random() & 0xFFU));
  char host[256] = "";
  if (gethostname(host, sizeof host - 1) == 0 && is_clean_utf8(host)) identity.host = host;
  identity.pid = static_cast<std::uint32_t>(getpid());
  return identity;
}

// Monitors that a process left open when it exits: their threads must end before gRPC's globals do.
class OpenMonitors {
 public:
  void close_all() {
    const std::lock_guard lock(mutex_);
    for (scalewatch_monitor* monitor : monitors_) {
      if (monitor->generation() == fork_generation()) monitor->close(kExitFlush, {}, false);
    }
  }
  void add(scalewatch_monitor* monitor) {
    const std::lock_guard lock(mutex_);
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
};

// Never destroyed: a handle may be closed from a destructor that runs later than this library's.
OpenMonitors& open_monitors() {
  static auto* monitors = new OpenMonitors;
  return *monitors;
}
struct AtExit {
  ~AtExit() { open_monitors().close_all(); }
} at_exit;

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
    const scalewatch_options given = sized(options, "options");
    const std::uint64_t bytes = given.buffer_bytes == 0 ? kDefaultBufferBytes : given.buffer_bytes;
    if (bytes < kSmallestBufferBytes) refuse("buffer_bytes must be at least 65,536");
    auto monitor = std::make_unique<scalewatch_monitor>(server_of(given), identity_of(given), bytes);
    open_monitors().add(monitor.get());
    *out = monitor.release();
    return static_cast<int>(SCALEWATCH_OK);
  });
}

int scalewatch_close(scalewatch_monitor* monitor, int64_t flush_ms, const char* reason) {
  if (monitor == nullptr) return SCALEWATCH_OK;
  bool durable = true;
  bool stopped = false;
  const int status = on(monitor, [&](scalewatch_monitor& m) {
    open_monitors().remove(monitor);
    std::string why = reason == nullptr ? "finished" : std::string(reason).substr(0, 256);
    if (!is_clean_utf8(why)) why = "finished";
    durable = m.close(wait_of(flush_ms, kDefaultFlushMs), std::move(why), true);
    stopped = m.stopped();
    delete monitor;
  });
  if (status != SCALEWATCH_OK) return status;
  if (stopped) return fail(SCALEWATCH_STOPPED, "the server told this client to stop; nothing more was sent");
  return durable ? SCALEWATCH_OK : fail(SCALEWATCH_TIMEOUT, "not every report was durable when the time was over");
}

int scalewatch_add_scaler(scalewatch_monitor* monitor, const char* name, const char* policy,
                          const scalewatch_parameter* parameters, size_t parameter_count, uint32_t* id) {
  return on(monitor, [&](scalewatch_monitor& m) {
    ScalerInfo info{text(name, 1, 128, "name"), text(policy, 1, 64, "policy"), {}};
    if (parameter_count > 64) refuse("at most 64 parameters");
    if (parameter_count > 0 && parameters == nullptr) refuse("parameters is NULL");
    for (std::size_t i = 0; i < parameter_count; ++i) {
      info.parameters[text(parameters[i].name, 1, 64, "a parameter's name")] = parameters[i].value;
    }
    const std::uint32_t made = m.add_scaler(std::move(info));
    if (id != nullptr) *id = made;
  });
}

int scalewatch_add_optimizer(scalewatch_monitor* monitor, const scalewatch_optimizer* optimizer, uint32_t* id) {
  return on(monitor, [&](scalewatch_monitor& m) {
    const scalewatch_optimizer given = sized(optimizer, "optimizer");
    OptimizerInfo info;
    info.name = given.name == nullptr ? "default" : text(given.name, 1, 128, "name");
    info.class_name = text(given.class_name, 0, 128, "class_name");
    info.scaler = given.scaler;
    info.fused = given.fused != 0;
    if ((given.present & SCALEWATCH_HAS_LR) != 0) info.lr = given.lr;
    if ((given.present & SCALEWATCH_HAS_BETA1) != 0) info.beta1 = given.beta1;
    if ((given.present & SCALEWATCH_HAS_BETA2) != 0) info.beta2 = given.beta2;
    if ((given.present & SCALEWATCH_HAS_EPS) != 0) info.eps = given.eps;
    if ((given.present & SCALEWATCH_HAS_WEIGHT_DECAY) != 0) info.weight_decay = given.weight_decay;
    if (given.state_dtype_count > 16) refuse("at most 16 state dtypes");
    if (given.state_dtype_count > 0 && given.state_dtypes == nullptr) refuse("state_dtypes is NULL");
    for (std::size_t i = 0; i < given.state_dtype_count; ++i) {
      info.state_dtypes.push_back(dtype(given.state_dtypes[i], true, "a state dtype"));
    }
    const std::uint32_t made = m.add_optimizer(std::move(info));
    if (id != nullptr) *id = made;
  });
}

int scalewatch_add_tensor(scalewatch_monitor* monitor, const scalewatch_tensor* tensor, uint32_t* id) {
  return on(monitor, [&](scalewatch_monitor& m) {
    const scalewatch_tensor given = sized(tensor, "tensor");
    TensorInfo info;
    info.name = text(given.name, 1, 512, "name");
    if (given.role < SCALEWATCH_GRADIENT || given.role > SCALEWATCH_BUFFER) refuse("role is no scalewatch_role");
    info.role = static_cast<Role>(given.role);
    info.dtype = dtype(given.dtype, true, "dtype");
    info.numel = given.numel;
    info.forward_index = given.forward_index;
    info.shard = text(given.shard, 0, 128, "shard");
    info.replica = text(given.replica, 0, 128, "replica");
    info.optimizer = text(given.optimizer, 0, 128, "optimizer");
    const std::uint32_t made = m.recorder().add_tensor(std::move(info));
    if (id != nullptr) *id = made;
  });
}

int scalewatch_begin_attempt(scalewatch_monitor* monitor, int64_t step) {
  return on(monitor, [&](scalewatch_monitor& m) { m.begin(step); });
}

int scalewatch_observe(scalewatch_monitor* monitor, uint32_t tensor, const void* data, uint64_t numel, double scale,
                       int32_t target) {
  return on(monitor, [&](scalewatch_monitor& m) { m.recorder().observe(tensor, data, numel, scale, target); });
}

int scalewatch_observe_strided(scalewatch_monitor* monitor, uint32_t tensor, const void* data, uint32_t ndim,
                               const uint64_t* sizes, const int64_t* strides, double scale, int32_t target) {
  return on(monitor, [&](scalewatch_monitor& m) {
    scalewatch::StridedTensor view;
    if (ndim > scalewatch::StridedTensor::kMaxDims) refuse("ndim must be at most 8");
    if (ndim > 0 && (sizes == nullptr || strides == nullptr)) refuse("sizes or strides is NULL");
    view.data = data;
    view.dims = ndim;
    bool empty = false;
    for (std::uint32_t i = 0; i < ndim; ++i) {
      view.sizes[i] = sizes[i];
      view.strides[i] = strides[i];
      empty = empty || sizes[i] == 0;
    }
    if (data == nullptr && !empty) refuse("data is NULL");
    m.recorder().observe(tensor, view, scale, target);
  });
}

int scalewatch_observe_record(scalewatch_monitor* monitor, uint32_t tensor, const scalewatch_record* record, double scale,
                              int32_t target) {
  return on(monitor, [&](scalewatch_monitor& m) {
    const scalewatch_record given = sized(record, "record");
    Record made;
    made.numel = given.numel;
    made.nan = given.nan;
    made.pos_inf = given.pos_inf;
    made.neg_inf = given.neg_inf;
    made.zero = given.zero;
    made.subnormal = given.subnormal;
    made.flushed = given.flushed;
    made.over = given.over;
    made.sum = given.sum;
    made.sum_sq = given.sum_sq;
    made.min = given.min;
    made.max = given.max;
    made.absmin_nonzero = given.absmin_nonzero;
    m.recorder().observe(tensor, made, scale, target);
  });
}

int scalewatch_observe_scaler(scalewatch_monitor* monitor, uint32_t scaler, double scale_before, double scale_after,
                              int64_t growth_tracker, int32_t hysteresis) {
  return on(monitor, [&](scalewatch_monitor& m) {
    ScalerObservation& seen = m.recorder().scaler(scaler, m.identity().scalers.size());
    seen.scale_before = scale_before;
    seen.scale_after = scale_after;
    seen.growth_tracker = growth_tracker;
    seen.hysteresis = hysteresis;
  });
}

int scalewatch_observe_optimizer(scalewatch_monitor* monitor, uint32_t scaler, uint32_t optimizer, double found_inf_local,
                                 double found_inf_decided, int32_t outcome) {
  return on(monitor, [&](scalewatch_monitor& m) {
    if (optimizer >= m.identity().optimizers.size()) refuse("unknown optimizer: add_optimizer gives the id");
    if (outcome < SCALEWATCH_OUTCOME_UNKNOWN || outcome > SCALEWATCH_SKIPPED) refuse("outcome is no scalewatch_outcome");
    auto& all = m.recorder().scaler(scaler, m.identity().scalers.size()).optimizers;
    const auto known = std::ranges::find(all, optimizer, &OptimizerObservation::optimizer);
    (known == all.end() ? all.emplace_back() : *known) = {optimizer, found_inf_local, found_inf_decided, outcome};
  });
}

int scalewatch_set_loss(scalewatch_monitor* monitor, double loss) {
  return on(monitor, [&](scalewatch_monitor& m) { m.recorder().open_attempt().loss = loss; });
}

int scalewatch_set_lr(scalewatch_monitor* monitor, double lr) {
  return on(monitor, [&](scalewatch_monitor& m) { m.recorder().open_attempt().lr = lr; });
}

int scalewatch_set_grad_norm(scalewatch_monitor* monitor, double norm, int scaled, int clipped) {
  return on(monitor, [&](scalewatch_monitor& m) {
    Attempt& attempt = m.recorder().open_attempt();
    attempt.grad_norm = norm;
    attempt.grad_norm_scaled = scaled != 0;
    attempt.grad_norm_clipped = clipped != 0;
  });
}

int scalewatch_set_input_non_finite(scalewatch_monitor* monitor, int non_finite) {
  return on(monitor, [&](scalewatch_monitor& m) { m.recorder().open_attempt().input_non_finite = non_finite != 0; });
}

int scalewatch_set_phase(scalewatch_monitor* monitor, int32_t phase) {
  return on(monitor, [&](scalewatch_monitor& m) {
    if (phase < SCALEWATCH_PHASE_UNSPECIFIED || phase > SCALEWATCH_INIT) refuse("phase is no scalewatch_phase");
    m.recorder().set_phase(phase);
  });
}

int scalewatch_misuse(scalewatch_monitor* monitor, const char* kind, const char* detail, int raised) {
  return on(monitor, [&](scalewatch_monitor& m) {
    const std::string name = text(kind, 1, 64, "kind");
    const auto fits = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
    if (!std::ranges::all_of(name, fits)) refuse("kind must be of [a-z0-9_]");
    std::string more = detail == nullptr ? "" : std::string(detail).substr(0, 512);
    while (!more.empty() && !is_clean_utf8(more)) more.pop_back();  // a cut may fall within a character
    m.recorder().misuse({name, std::move(more), raised != 0});
  });
}

int scalewatch_end_attempt(scalewatch_monitor* monitor) {
  bool sent = true;
  const int status = on(monitor, [&](scalewatch_monitor& m) { sent = m.recorder().end(); });
  if (status != SCALEWATCH_OK || sent) return status;
  return fail(SCALEWATCH_STOPPED, "the server told this client to stop; see scalewatch_stats.last_fault");
}

int scalewatch_get_stats(scalewatch_monitor* monitor, scalewatch_stats* stats) {
  return on(monitor, [&](scalewatch_monitor& m) {
    if (stats == nullptr || stats->size < sizeof(std::size_t)) refuse("stats is NULL or its size is not set");
    const Status status = m.mailbox().status();
    const auto dropped = [&status](LossCause cause) { return status.dropped[static_cast<std::size_t>(cause)]; };
    const Cost cost = m.recorder().cost();
    scalewatch_stats made{};
    made.size = stats->size;
    made.connection = status.connection;
    made.last_fault_cause = static_cast<std::int32_t>(status.last_fault_cause);
    made.last_seq = m.recorder().last_seq();
    made.durable_seq = status.durable_seq;
    made.reports_sent = status.reports_sent;
    made.reports_thinned = status.reports_thinned;
    made.dropped_buffer_full = dropped(LossCause::kBufferFull);
    made.dropped_queue_full = dropped(LossCause::kQueueFull);
    made.dropped_too_large = dropped(LossCause::kTooLarge);
    made.dropped_rejected = dropped(LossCause::kRejected);
    made.dropped_internal = dropped(LossCause::kInternal);
    made.dropped_stopped = m.recorder().dropped_stopped();
    made.buffered_bytes = status.buffered_bytes;
    made.connects = status.connects;
    made.trainer_thread_ns = cost.trainer_thread_ns;
    made.measure_ns = cost.measure_ns;
    std::snprintf(made.last_fault, sizeof made.last_fault, "%s", status.last_fault.c_str());
    std::memcpy(stats, &made, std::min(stats->size, sizeof made));
  });
}

int scalewatch_wait_durable(scalewatch_monitor* monitor, int64_t timeout_ms) {
  bool durable = false;
  bool stopped = false;
  const int status = on(monitor, [&](scalewatch_monitor& m) {
    durable = m.mailbox().wait_durable(m.recorder().last_seq(), Mailbox::Clock::now() + wait_of(timeout_ms, 0));
    stopped = m.stopped();
  });
  if (status != SCALEWATCH_OK || durable) return status;
  if (stopped) return fail(SCALEWATCH_STOPPED, "the server told this client to stop");
  return fail(SCALEWATCH_TIMEOUT, "not every report is durable yet");
}
