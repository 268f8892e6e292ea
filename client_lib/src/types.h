// Plain values that pass between the trainer's thread, the client's thread and the packer.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cuda/record/exponents.h"
#include "cuda/record/record.h"

namespace scalewatch::cuda {
class Batch;  // cuda/device/batch.h
}

namespace scalewatch::client {

struct ScalerInfo {
  std::string name;
  std::string policy;
  std::map<std::string, double> parameters;
};

struct OptimizerInfo {
  std::string name;
  std::string class_name;
  std::uint32_t scaler = 0;
  std::optional<double> lr, beta1, beta2, eps, weight_decay;
  std::vector<DType> state_dtypes;
  bool fused = false;
};

struct TensorInfo {
  std::string name;
  Role role = Role::kUnspecified;
  DType dtype = DType::kUnspecified;
  std::uint64_t numel = 0;
  std::uint32_t forward_index = 0;
  std::string shard, replica, optimizer;
};

// Who this client is: constant from its first attempt on.
struct Identity {
  std::string run;
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
  std::string incarnation;              // 16 random bytes
  std::uint64_t incarnation_order = 0;  // Unix ns at start
  std::int64_t start_time_ms = 0;
  std::string host;
  std::uint32_t pid = 0;
  std::string gpu_uuid, job_id, framework;
  DType compute_dtype = DType::kUnspecified;
  std::vector<ScalerInfo> scalers;
  std::vector<OptimizerInfo> optimizers;
  std::vector<std::pair<std::string, std::string>> labels;
};

// When the full record of a measured tensor is sent. One that is non-finite is sent in any case.
enum class SendMode : std::uint8_t { kAlways, kIfFoundInf, kIfBad };

// Room for the exponent histograms of one attempt.
struct Histograms {
  std::vector<ExponentCounts> slots;
  std::size_t used = 0;
};
inline constexpr std::uint32_t kNoHistogram = std::numeric_limits<std::uint32_t>::max();

// One tensor at one attempt: its micro-batches merged.
struct Measured {
  std::uint32_t id = 0;
  Role role = Role::kUnspecified;
  DType target = DType::kUnspecified;
  SendMode send = SendMode::kAlways;
  std::uint32_t micro_batches = 0;
  std::int64_t first_bad_micro = -1;       // -1 = none was non-finite
  double scale = 1;                        // 0: a GPU knows it
  std::uint64_t table_numel = 0;           // as declared
  std::uint32_t histogram = kNoHistogram;  // slot in the attempt's histograms
  std::uint32_t histogram_micros = 0;      // micro-batches in it: it is whole when these are all
  Record record;

  [[nodiscard]] bool bad() const noexcept { return record.non_finite() != 0; }
};
using Sheet = std::vector<Measured>;

struct OptimizerObservation {
  std::uint32_t scaler = 0;
  std::uint32_t optimizer = 0;
  double found_inf_local = 0;    // NaN = not known
  double found_inf_decided = 0;  // NaN = not known
  std::int32_t outcome = 0;
};

struct ScalerObservation {
  std::uint32_t scaler = 0;
  double scale_before = std::numeric_limits<double>::quiet_NaN();  // NaN = not known
  double scale_after = std::numeric_limits<double>::quiet_NaN();   // NaN = not known
  std::int64_t growth_tracker = -1;
  std::int32_t hysteresis = -1;
};

// Of fixed size, so that noting one allocates nothing. Texts end with NUL.
struct Misuse {
  std::uint64_t attempt = 0;
  std::array<char, 65> kind{};
  std::array<char, 513> detail{};
  bool raised = false;
};

// What monitoring cost and dropped on the trainer's thread so far.
struct Cost {
  std::uint64_t trainer_thread_ns = 0;
  std::uint64_t measure_ns = 0;
  std::uint64_t misuse_dropped = 0;
  std::uint64_t driver_calls = 0;  // of CUDA
};

// A GPU that is not measured, or not any more.
struct DeviceFault {
  int device = 0;
  std::int32_t cause = 0;  // number of scalewatch.v1.DeviceFaultCause
  std::string detail;      // one line
};

// Numbers equal scalewatch.v1.LossCause.
enum class LossCause : std::uint8_t {
  kNone = 0,
  kBufferFull = 1,
  kQueueFull = 2,
  kTooLarge = 3,
  kRejected = 4,
  kInternal = 5,
  kReconnect = 6,
  kSpoolLimit = 7,
  kDevice = 8,
  kStore = 9,
};
inline constexpr std::size_t kLossCauses = 10;

// Results of GPUs that an attempt waits for, at most.
inline constexpr std::size_t kMostBatches = 32;

// All that the trainer said about one attempt. Made on its thread, packed on the client's, then used again.
struct Attempt {
  std::uint64_t number = 0;  // from 1
  std::int64_t step = 0;
  std::int64_t time_ms = 0;
  Sheet* sheet = nullptr;                        // what was measured; owned by the mailbox
  Histograms* histograms = nullptr;              // of some of it, at some attempts; owned by the mailbox
  bool sheet_cut = false;                        // it holds some of the non-finite records only
  LossCause statistics_lost = LossCause::kNone;  // why the sheet holds less than was measured
  std::vector<ScalerObservation> scalers;
  std::vector<OptimizerObservation> optimizers;
  std::vector<cuda::Batch*> batches;  // what GPUs still have to say of it
  std::size_t batches_settled = 0;    // so many of them have said it
  std::optional<double> loss, lr, grad_norm;
  bool grad_norm_scaled = false;
  bool grad_norm_clipped = false;
  std::optional<bool> input_non_finite;
  std::int32_t phase = 0;
  Cost cost;

  // Some optimizer, on this rank or after the reduction, saw a gradient that was not finite.
  [[nodiscard]] bool found_inf() const noexcept {
    for (const OptimizerObservation& seen : optimizers) {
      if (seen.found_inf_local > 0 || seen.found_inf_decided > 0) return true;
    }
    return false;
  }

  // Empties it and keeps its memory.
  void reset() {
    sheet = nullptr;
    histograms = nullptr;
    sheet_cut = false;
    statistics_lost = LossCause::kNone;
    scalers.clear();
    optimizers.clear();
    batches.clear();
    batches_settled = 0;
    loss.reset();
    lr.reset();
    grad_norm.reset();
    grad_norm_scaled = grad_norm_clipped = false;
    input_non_finite.reset();
  }
};

// Numbers equal scalewatch.v1.FaultCause.
enum class FaultCause : std::uint8_t {
  kUnspecified = 0,
  kFenced = 1,
  kBadHello = 2,
  kBadTable = 3,
  kBadReport = 4,
  kSeqGap = 5,
  kLimit = 6,
  kShuttingDown = 7,
  kProtocol = 8,
  kMoved = 9,
  kDenied = 10,
};

}  // namespace scalewatch::client
