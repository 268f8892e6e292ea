// Scalewatch client for C++17 and later: a thin owner of the C ABI.
//
// Setting up throws std::invalid_argument or std::runtime_error, because a wrong name is a mistake to see at once. What is
// called while training is noexcept and returns false when the call was refused (scalewatch_last_error() says why).
// Threads, costs and limits are those of scalewatch.h.
#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "scalewatch/scalewatch.h"

namespace scalewatch {

// What a Monitor is opened with; see scalewatch_options.
struct MonitorOptions {
  std::string run;     // empty: $SCALEWATCH_RUN
  std::string server;  // empty: $SCALEWATCH_SERVER, else 127.0.0.1:7462
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
  scalewatch_dtype compute_dtype = SCALEWATCH_FP16;
  std::string framework = "cpp";
  std::string job_id;    // empty: $SLURM_JOB_ID
  std::string gpu_uuid;  // empty: none
  std::vector<std::pair<std::string, std::string>> labels;
  std::uint64_t buffer_bytes = 0;           // 0 = 64 MiB
  std::int32_t ring_attempts = 0;           // 0 = 16; negative = none
  std::string spool_dir;                    // empty: $SCALEWATCH_SPOOL_DIR, else none
  std::uint64_t spool_bytes = 0;            // 0 = 1 GiB
  std::uint64_t spool_max_age_s = 0;        // 0 = 7 days
  std::uint64_t spool_keep_free_bytes = 0;  // 0 = 1 GiB
  std::uint32_t measure_threads = 1;        // share the pass over a large tensor
  std::uint32_t histogram_every = 100;      // attempts between two exponent histograms of a gradient; 0 = none
  std::string token_file;                   // empty: $SCALEWATCH_TOKEN_FILE or $SCALEWATCH_TOKEN, else none
  std::string ca_file;                      // empty: $SCALEWATCH_CA_FILE, else the system's
  std::string cert_file;                    // empty: $SCALEWATCH_CERT_FILE, else none
  std::string key_file;                     // empty: $SCALEWATCH_KEY_FILE
};

// Which tensors are measured when, and sent; see scalewatch_sampling.
struct SamplingOptions {
  std::int32_t role = 0;  // scalewatch_role; 0 = any
  std::string include;    // empty: all
  std::string exclude;    // empty: none
  std::uint32_t every = 1;
  std::uint32_t report_every = 1;
  std::uint64_t start_attempt = 0;
  std::uint64_t end_attempt = 0;
  bool only_found_inf = false;
};

// What a tensor is declared with; see scalewatch_tensor.
struct TensorOptions {
  std::string name;
  scalewatch_role role = SCALEWATCH_GRADIENT;
  scalewatch_dtype dtype = SCALEWATCH_FP32;
  std::uint64_t numel = 0;
  std::uint32_t forward_index = 0;
  std::string optimizer;
  std::string shard;
  std::string replica;
};

// What an optimizer is declared with; NaN = not known.
struct OptimizerOptions {
  std::string name = "default";
  std::string class_name;
  std::uint32_t scaler = 0;
  double lr = std::numeric_limits<double>::quiet_NaN();
  double beta1 = std::numeric_limits<double>::quiet_NaN();
  double beta2 = std::numeric_limits<double>::quiet_NaN();
  double eps = std::numeric_limits<double>::quiet_NaN();
  double weight_decay = std::numeric_limits<double>::quiet_NaN();
  std::vector<scalewatch_dtype> state_dtypes = {};
  bool fused = false;
};

// Where something lies on a GPU; see scalewatch_device.
struct Gpu {
  std::int32_t device = 0;  // CUDA's ordinal
  void* stream = nullptr;   // cudaStream_t or CUstream
};

// How a tensor on a GPU is measured; see scalewatch_device_tensor.
struct DeviceTensorOptions {
  double scale = 1;
  const float* scale_at = nullptr;  // on the GPU, in place of scale
  scalewatch_dtype target = SCALEWATCH_DTYPE_UNSPECIFIED;
  bool transient = false;  // measured at once
};

// One client start of one rank. Movable; says goodbye when destroyed (waits at most 5 s for the server).
class Monitor {
 public:
  using TensorId = std::uint32_t;
  using ScalerId = std::uint32_t;
  using OptimizerId = std::uint32_t;

  explicit Monitor(const MonitorOptions& options) {
    std::vector<scalewatch_label> labels;
    labels.reserve(options.labels.size());
    for (const auto& [key, value] : options.labels) labels.push_back({key.c_str(), value.c_str()});
    scalewatch_options c{};
    c.size = sizeof c;
    c.server = options.server.c_str();
    c.run = options.run.c_str();
    c.rank = options.rank;
    c.world_size = options.world_size;
    c.compute_dtype = options.compute_dtype;
    c.framework = options.framework.c_str();
    c.job_id = options.job_id.empty() ? nullptr : options.job_id.c_str();
    c.gpu_uuid = options.gpu_uuid.c_str();
    c.labels = labels.data();
    c.label_count = labels.size();
    c.buffer_bytes = options.buffer_bytes;
    c.ring_attempts = options.ring_attempts;
    c.spool_dir = options.spool_dir.empty() ? nullptr : options.spool_dir.c_str();
    c.token_file = options.token_file.empty() ? nullptr : options.token_file.c_str();
    c.ca_file = options.ca_file.empty() ? nullptr : options.ca_file.c_str();
    c.cert_file = options.cert_file.empty() ? nullptr : options.cert_file.c_str();
    c.key_file = options.key_file.empty() ? nullptr : options.key_file.c_str();
    c.spool_bytes = options.spool_bytes;
    c.spool_max_age_s = options.spool_max_age_s;
    c.spool_keep_free_bytes = options.spool_keep_free_bytes;
    c.measure_threads = options.measure_threads;
    c.histogram_every = options.histogram_every == 0 ? SCALEWATCH_NEVER : options.histogram_every;
    check(scalewatch_open(&c, &handle_));
  }
  ~Monitor() { close(); }
  Monitor(Monitor&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Monitor& operator=(Monitor&& other) noexcept {
    if (this != &other) {
      close();
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  // Sends what is left and says goodbye; true when all of it is durable. Called again it does nothing. Afterwards the
  // monitor may only be destroyed.
  bool close(std::int64_t flush_ms = -1, const char* reason = nullptr) noexcept {
    return scalewatch_close(std::exchange(handle_, nullptr), flush_ms, reason) == SCALEWATCH_OK;
  }

  // ---- before the first attempt ----
  ScalerId add_scaler(const std::string& name, const std::string& policy,
                      const std::vector<std::pair<std::string, double>>& parameters = {}) {
    std::vector<scalewatch_parameter> c;
    c.reserve(parameters.size());
    for (const auto& [key, value] : parameters) c.push_back({key.c_str(), value});
    ScalerId id = 0;
    check(scalewatch_add_scaler(handle_, name.c_str(), policy.c_str(), c.data(), c.size(), &id));
    return id;
  }
  OptimizerId add_optimizer(const OptimizerOptions& options) {
    std::vector<std::int32_t> dtypes(options.state_dtypes.begin(), options.state_dtypes.end());
    scalewatch_optimizer c{};
    c.size = sizeof c;
    c.name = options.name.c_str();
    c.class_name = options.class_name.c_str();
    c.scaler = options.scaler;
    const auto known = [&c](double value, std::uint32_t bit) {
      if (!std::isnan(value)) c.present |= bit;
      return value;
    };
    c.lr = known(options.lr, SCALEWATCH_HAS_LR);
    c.beta1 = known(options.beta1, SCALEWATCH_HAS_BETA1);
    c.beta2 = known(options.beta2, SCALEWATCH_HAS_BETA2);
    c.eps = known(options.eps, SCALEWATCH_HAS_EPS);
    c.weight_decay = known(options.weight_decay, SCALEWATCH_HAS_WEIGHT_DECAY);
    c.state_dtypes = dtypes.data();
    c.state_dtype_count = dtypes.size();
    c.fused = options.fused ? 1 : 0;
    OptimizerId id = 0;
    check(scalewatch_add_optimizer(handle_, &c, &id));
    return id;
  }

  void add_sampling(const SamplingOptions& options) {
    scalewatch_sampling c{};
    c.size = sizeof c;
    c.role = options.role;
    c.include = options.include.empty() ? nullptr : options.include.c_str();
    c.exclude = options.exclude.empty() ? nullptr : options.exclude.c_str();
    c.every = options.every;
    c.report_every = options.report_every;
    c.start_attempt = options.start_attempt;
    c.end_attempt = options.end_attempt;
    c.only_found_inf = options.only_found_inf ? 1 : 0;
    check(scalewatch_add_sampling(handle_, &c));
  }

  // ---- at any time ----
  TensorId add_tensor(const TensorOptions& options) {
    scalewatch_tensor c{};
    c.size = sizeof c;
    c.name = options.name.c_str();
    c.role = options.role;
    c.dtype = options.dtype;
    c.numel = options.numel;
    c.forward_index = options.forward_index;
    c.shard = options.shard.c_str();
    c.replica = options.replica.c_str();
    c.optimizer = options.optimizer.c_str();
    TensorId id = 0;
    check(scalewatch_add_tensor(handle_, &c, &id));
    return id;
  }

  // ---- one attempt: begin, observe, end ----
  bool begin_attempt(std::int64_t step) noexcept { return ok(scalewatch_begin_attempt(handle_, step)); }
  // Whether this attempt is to measure the tensor; observing it otherwise does nothing.
  [[nodiscard]] bool wants(TensorId tensor) noexcept {
    int wanted = 0;
    return ok(scalewatch_wants(handle_, tensor, &wanted)) && wanted != 0;
  }
  // data: elements of the dtype that the tensor was declared with.
  bool observe(TensorId tensor, const void* data, std::uint64_t numel, double scale = 1,
               scalewatch_dtype target = SCALEWATCH_DTYPE_UNSPECIFIED) noexcept {
    return ok(scalewatch_observe(handle_, tensor, data, numel, scale, target));
  }
  // data: on the GPU; until measure_device or end_attempt it must not change, unless it is measured at once.
  bool observe_device(TensorId tensor, const void* data, std::uint64_t numel, const Gpu& gpu,
                      const DeviceTensorOptions& options = {}) noexcept {
    scalewatch_device_tensor how{};
    how.size = sizeof how;
    how.scale_at = options.scale_at;
    how.scale = options.scale;
    how.target = options.target;
    how.transient = options.transient ? 1 : 0;
    const scalewatch_device on{sizeof on, gpu.device, gpu.stream};
    return ok(scalewatch_observe_device(handle_, tensor, data, numel, &on, &how));
  }
  // Launches what was noted. graph: what it became a part of while the stream is captured, else SCALEWATCH_NO_GRAPH.
  bool measure_device(std::uint32_t* graph = nullptr) noexcept { return ok(scalewatch_measure_device(handle_, graph)); }
  bool observe_graph(std::uint32_t graph, void* stream) noexcept {
    return ok(scalewatch_observe_graph(handle_, graph, stream));
  }
  // Pointers to the GPU; null = not known. Read by the next measure_device or end_attempt.
  bool observe_scaler_device(ScalerId scaler, const Gpu& gpu, const float* scale_before, const float* scale_after = nullptr,
                             const std::int32_t* growth_tracker = nullptr) noexcept {
    const scalewatch_device on{sizeof on, gpu.device, gpu.stream};
    const scalewatch_device_scaler state{sizeof state, scale_before, scale_after, growth_tracker};
    return ok(scalewatch_observe_scaler_device(handle_, scaler, &on, &state));
  }
  bool observe_optimizer_device(ScalerId scaler, OptimizerId optimizer, const Gpu& gpu, const float* found_inf_local,
                                const float* found_inf_decided,
                                scalewatch_outcome outcome = SCALEWATCH_OUTCOME_UNKNOWN) noexcept {
    const scalewatch_device on{sizeof on, gpu.device, gpu.stream};
    return ok(
        scalewatch_observe_optimizer_device(handle_, scaler, optimizer, &on, found_inf_local, found_inf_decided, outcome));
  }
  bool observe_scaler(ScalerId scaler, double scale_before, double scale_after, std::int64_t growth_tracker = -1,
                      std::int32_t hysteresis = -1) noexcept {
    return ok(scalewatch_observe_scaler(handle_, scaler, scale_before, scale_after, growth_tracker, hysteresis));
  }
  bool observe_optimizer(ScalerId scaler, OptimizerId optimizer, double found_inf_local, double found_inf_decided,
                         scalewatch_outcome outcome) noexcept {
    return ok(scalewatch_observe_optimizer(handle_, scaler, optimizer, found_inf_local, found_inf_decided, outcome));
  }
  bool set_loss(double loss) noexcept { return ok(scalewatch_set_loss(handle_, loss)); }
  bool set_lr(double lr) noexcept { return ok(scalewatch_set_lr(handle_, lr)); }
  bool set_grad_norm(double norm, bool scaled = false, bool clipped = false) noexcept {
    return ok(scalewatch_set_grad_norm(handle_, norm, scaled ? 1 : 0, clipped ? 1 : 0));
  }
  bool set_input_non_finite(bool non_finite) noexcept {
    return ok(scalewatch_set_input_non_finite(handle_, non_finite ? 1 : 0));
  }
  bool set_phase(scalewatch_phase phase) noexcept { return ok(scalewatch_set_phase(handle_, phase)); }
  bool misuse(const char* kind, const char* detail, bool raised) noexcept {
    return ok(scalewatch_misuse(handle_, kind, detail, raised ? 1 : 0));
  }
  bool end_attempt() noexcept { return ok(scalewatch_end_attempt(handle_)); }

  // ---- any thread ----
  [[nodiscard]] scalewatch_stats stats() const noexcept {
    scalewatch_stats stats{};
    stats.size = sizeof stats;
    scalewatch_get_stats(handle_, &stats);
    return stats;
  }
  bool wait_durable(std::int64_t timeout_ms) noexcept { return ok(scalewatch_wait_durable(handle_, timeout_ms)); }

  // For functions of the C ABI that have no wrapper here.
  [[nodiscard]] scalewatch_monitor* handle() const noexcept { return handle_; }

 private:
  static bool ok(int status) noexcept { return status == SCALEWATCH_OK; }
  static void check(int status) {
    if (status == SCALEWATCH_INVALID_ARGUMENT) throw std::invalid_argument(scalewatch_last_error());
    if (status != SCALEWATCH_OK) throw std::runtime_error(scalewatch_last_error());
  }

  scalewatch_monitor* handle_ = nullptr;
};

}  // namespace scalewatch
