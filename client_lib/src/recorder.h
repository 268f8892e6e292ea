// The trainer's side: checks what it is told and gathers one attempt. Used by one thread.
//
// While training it takes no lock, allocates nothing and makes no system call (clocks are read through the vDSO), once every
// tensor was observed in one attempt. The exception is a refused call, which throws.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "client_lib/src/devices.h"
#include "client_lib/src/mailbox.h"
#include "client_lib/src/sampling.h"
#include "client_lib/src/types.h"
#include "cuda/cpu/measure.h"
#include "cuda/cpu/workers.h"

namespace scalewatch::client {

// A refused call: status is a scalewatch_status.
class Refused : public std::runtime_error {
 public:
  Refused(int status, const std::string& message) : std::runtime_error(message), status_(status) {}
  [[nodiscard]] int status() const noexcept { return status_; }

 private:
  int status_;
};

class Recorder final : private Places {
 public:
  // What the trainer's thread counts; read by any thread.
  struct Counters {
    std::atomic<std::uint64_t> attempts{0};  // ended so far
    std::atomic<std::uint64_t> dropped_stopped{0};
    std::atomic<std::uint64_t> misuse_dropped{0};
    std::atomic<std::uint64_t> sampled_out{0};      // observations that sampling left out
    std::atomic<std::uint64_t> histograms_lost{0};  // due, and without room
    std::atomic<std::uint64_t> trainer_thread_ns{0};
    std::atomic<std::uint64_t> measure_ns{0};
  };

  // threads: share the pass over a large tensor, the caller's included. histogram_every: attempts between two histograms of a
  // gradient; 0 = none.
  Recorder(Mailbox& mailbox, DType compute_dtype, unsigned threads, std::uint64_t histogram_every);

  // Every function throws Refused when it changed nothing because of what it was told.
  void add_sampling(Sampling::Rule rule);
  std::uint32_t add_tensor(TensorInfo info);
  void begin(std::int64_t step);
  void observe(std::uint32_t tensor, const void* data, std::uint64_t numel, double scale, std::int32_t target);
  // tensor.dtype is filled in from the table.
  void observe(std::uint32_t tensor, StridedTensor view, double scale, std::int32_t target);
  void observe(std::uint32_t tensor, const Record& record, double scale, std::int32_t target);
  void observe_device(std::uint32_t tensor, const void* data, std::uint64_t numel, const DevicePlace& on,
                      const DeviceMeasuring& how);
  // kind: of device::ScalarSource. An address of 0 is no scalar.
  void observe_scalar_device(const DevicePlace& where, std::uint64_t address, std::uint32_t kind, ScalarKind meaning,
                             std::uint32_t scaler, std::uint32_t optimizer);
  // Launches what was noted; gives the graph that it became a part of, or Devices::kNoGraph.
  std::uint32_t measure_device();
  void observe_graph(std::uint32_t graph, cuda::Stream stream);
  // Whether the open attempt wants this tensor: observing it otherwise is legal, costs nothing and changes nothing.
  [[nodiscard]] bool wanted(std::uint32_t tensor);
  ScalerObservation& scaler(std::uint32_t id);
  OptimizerObservation& optimizer(std::uint32_t scaler, std::uint32_t id);
  Attempt& open_attempt();
  // In the open attempt or else the next one.
  void misuse(std::string_view kind, std::string_view detail, bool raised);
  void set_phase(std::int32_t phase);
  // True when the attempt was handed over or counted as lost, false when the client is stopped.
  bool end();

  [[nodiscard]] bool attempt_is_open() const noexcept { return open_; }
  [[nodiscard]] const Sampling& sampling() const noexcept { return sampling_; }
  [[nodiscard]] const Counters& counters() const noexcept { return counters_; }
  [[nodiscard]] Devices& devices() noexcept { return devices_; }
  [[nodiscard]] const Devices& devices() const noexcept { return devices_; }

 private:
  struct Declared {
    Role role = Role::kUnspecified;
    DType dtype = DType::kUnspecified;
    std::uint16_t cadence = 0;  // the trainer's own sampling
    std::uint64_t numel = 0;
    std::uint64_t seen_in = 0;              // attempt that slot belongs to
    std::uint32_t slot = 0;                 // index in the sheet
    std::uint32_t gradient = kNotGradient;  // its number among the gradients
  };
  static constexpr std::uint32_t kNotGradient = std::numeric_limits<std::uint32_t>::max();

  const Declared& declared(std::uint32_t tensor) const;
  [[nodiscard]] Due due_of(std::uint32_t tensor) const noexcept;
  // The tensor's place in the open attempt, made if need be.
  Measured& place(std::uint32_t tensor, SendMode send, double scale, std::int32_t target);
  cuda::RecordTag place(const DeviceTensor& tensor) noexcept override;
  // Null: it was observed in this attempt under another scale or target. scale: 0 = a GPU knows it.
  Measured* place_or_null(std::uint32_t tensor, SendMode send, double scale, DType against);
  [[nodiscard]] bool agrees(std::uint32_t tensor, double scale, DType against) const noexcept;
  void add(Measured& into, const Record& record);
  template <class Measure, class Count>
  void observe_with(std::uint32_t tensor, std::uint64_t numel, double scale, std::int32_t target, const Measure& measure,
                    const Count& count);
  void begin_histograms() noexcept;
  // Whether the open attempt makes a histogram of a tensor whose record goes this way.
  [[nodiscard]] bool wants_histogram(const Declared& declared, SendMode send) const noexcept;
  // Null: it makes none, or has no room for it.
  ExponentCounts* histogram_of(std::uint32_t tensor, Measured& into) noexcept;

  // One call in so many has its time taken: a clock costs as much as the call. A prime, so that it is not always the same
  // tensors'. A pass over more elements is always timed.
  static constexpr unsigned kSampling = 17;
  [[nodiscard]] static std::uint64_t now_ns();
  static void add_to(std::atomic<std::uint64_t>& counter, std::uint64_t amount);
  [[nodiscard]] static std::uint64_t extrapolated(std::uint64_t ns);

  Mailbox& mailbox_;
  const DType compute_dtype_;
  std::unique_ptr<Workers> workers_;  // null without
  Sampling sampling_;
  std::vector<Due> due_;  // of the open attempt, by the trainer's own cadences
  const Overrides* overrides_ = nullptr;
  const std::uint64_t histogram_every_;
  std::uint64_t next_histograms_;     // attempt; 0 = never
  Histograms* histograms_ = nullptr;  // of the open attempt; null = it makes none
  std::size_t histogram_turns_ = 1;   // gradients take turns when there are more than room for their histograms
  std::size_t histogram_turn_ = 0;
  std::uint32_t gradients_ = 0;
  std::vector<Declared> tensors_;
  std::unordered_set<std::string> names_;  // name and role
  bool open_ = false;
  bool begun_ = false;
  std::int32_t phase_ = 0;
  std::size_t bad_ = 0;      // records of the open attempt that are not finite
  std::size_t misuses_ = 0;  // of the open attempt or the next one
  unsigned calls_ = 0;
  Devices devices_{*this};
  Counters counters_;
};

}  // namespace scalewatch::client
