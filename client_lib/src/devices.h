// What the trainer's thread notes of tensors and scalers on GPUs, and launches.
//
// Used by the trainer's thread, but for what says otherwise. Once warmed up it allocates nothing, takes no lock and makes no
// system call of its own; what the driver does inside its calls is the driver's. No error of a GPU reaches the trainer: what is
// lost is counted by cause.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "client_lib/src/types.h"
#include "cuda/cpu/measure.h"
#include "cuda/device/measurer.h"

namespace scalewatch::client {

// Where something lies on a GPU.
struct DevicePlace {
  int device = 0;
  cuda::Stream stream = nullptr;
};

// How a tensor on a GPU is measured.
struct DeviceMeasuring {
  double scale = 1;                    // positive and finite
  std::uint64_t scale_address = 0;     // of a float on the GPU that stands in for scale; 0 = none
  DType target = DType::kUnspecified;  // of the monitor
  bool transient = false;              // at once
  bool strided = false;                // view is its shape
  StridedTensor view;
};

// A tensor on a GPU that is to be measured.
struct DeviceTensor {
  std::uint32_t tensor = 0;
  DType target = DType::kUnspecified;
  double scale = 1;  // 0: desc.scale_address knows it
  bool histogram = false;
  device::TensorDesc desc{};
};

// What a gathered scalar becomes: ScalarTag::kind. first: scaler; second: optimizer.
enum class ScalarKind : std::uint32_t {
  kTensorScale,
  kScaleBefore,
  kScaleAfter,
  kGrowthTracker,
  kFoundInfLocal,
  kFoundInfDecided
};

// Gives a tensor its place in the open attempt's sheet.
class Places {
 public:
  // cuda::kNone as place: it has none (another scale or target in the same attempt, or not due).
  virtual cuda::RecordTag place(const DeviceTensor& tensor) noexcept = 0;

 protected:
  ~Places() = default;
};

class Devices {
 public:
  static constexpr int kMost = 64;
  static constexpr std::size_t kStreams = 8;           // of one device at a time
  static constexpr std::size_t kMostNoted = 1U << 20;  // between two launches

  static constexpr std::size_t kMostExponents = 1024;  // histograms of an attempt and device that memory is taken for at first

  // Why records or scalars of GPUs were lost.
  enum class Lost : std::uint8_t { kQuiet, kBusy, kLate, kReplays };
  static constexpr std::size_t kLostCauses = 4;

  explicit Devices(Places& places) : places_(places) {}
  ~Devices();
  Devices(const Devices&) = delete;
  Devices& operator=(const Devices&) = delete;

  // What all declared tensors come to, for the first memory of a device.
  void expect(std::uint64_t chunks, bool gradient) noexcept {
    ++expected_records_;
    expected_chunks_ += chunks;
    if (gradient && expected_exponents_ < kMostExponents) ++expected_exponents_;
  }
  // The attempt that begins makes histograms.
  void begin_exponents() noexcept { exponents_ = true; }

  // May throw std::bad_alloc while warming up.
  void note(const DevicePlace& where, const DeviceTensor& tensor, const device::StridedDesc* shape);
  void note(const DevicePlace& where, const device::ScalarSource& source, const cuda::ScalarTag& tag);
  // Measures one tensor at once.
  void measure(const DevicePlace& where, const DeviceTensor& tensor, const device::StridedDesc* shape);
  // Launches all that was noted. The number of the graph that it became a part of; kNoGraph: of none.
  static constexpr std::uint32_t kNoGraph = UINT32_MAX;
  std::uint32_t launch();
  // Brings the open attempt what a graph's replays left. False: there is no such graph.
  bool collect(std::uint32_t graph, cuda::Stream stream);
  // The attempt is over: the batches are its own.
  void end(Attempt& attempt);

  // Calls of the driver on this thread so far.
  [[nodiscard]] std::uint64_t calls_so_far() const noexcept;

  // Frees what GPUs hold; nothing else may be called any more. Client's thread, at its end.
  void release();

  // ---- any thread ----
  void count_lost(Lost cause, std::uint64_t records) noexcept {
    lost_[static_cast<std::size_t>(cause)].fetch_add(records, std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t lost(Lost cause) const noexcept {
    return lost_[static_cast<std::size_t>(cause)].load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t lost() const noexcept;
  [[nodiscard]] std::uint64_t histograms_lost() const noexcept { return histograms_lost_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t driver_calls() const noexcept;  // on the trainer's thread
  [[nodiscard]] std::uint64_t poll_calls() const noexcept;    // on the client's
  void add_gpu_ns(std::uint64_t ns) noexcept { gpu_ns_.fetch_add(ns, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t gpu_ns() const noexcept { return gpu_ns_.load(std::memory_order_relaxed); }
  // Null when it was never used.
  [[nodiscard]] const cuda::Device* device(int ordinal) const noexcept;

 private:
  // What waits for the next launch on one stream, and the attempt's batch on it.
  struct Lane {
    cuda::Stream stream = nullptr;
    bool used = false;
    std::vector<DeviceTensor> tensors;
    std::vector<device::TensorDesc> descs;
    std::vector<device::StridedDesc> shapes;
    std::vector<device::TensorDesc> exponents;  // of those tensors that a histogram is wanted of
    std::vector<device::ScalarSource> scalars;
    std::vector<cuda::ScalarTag> scalar_tags;
    cuda::Batch* batch = nullptr;
    cuda::Measurer::Capture capture = cuda::Measurer::Capture::kNo;  // when it was asked last
    cuda::Graph* recording = nullptr;  // of transient tensors in a capture; the next launch ends it
    [[nodiscard]] cuda::Work work() const noexcept { return {descs, shapes, scalars, {}}; }
    [[nodiscard]] bool empty() const noexcept { return descs.empty() && scalars.empty(); }
    void clear() noexcept;
  };
  struct Gpu {
    explicit Gpu(int ordinal) : measurer(cuda::driver(), ordinal) {}
    cuda::Measurer measurer;
    std::array<Lane, kStreams> lanes;
  };
  struct Captured {
    Gpu* gpu = nullptr;
    cuda::Graph* graph = nullptr;
    std::vector<DeviceTensor> tensors;
  };

  Gpu& gpu(int ordinal);
  Lane* lane(Gpu& gpu, cuda::Stream stream) noexcept;
  void lose(Lost cause, std::uint64_t records) noexcept;
  // The lane's batch with room for the work; one that is full is handed over first. Takes histograms that find none out of the
  // work.
  [[nodiscard]] cuda::Batch* room(Gpu& gpu, Lane& lane, cuda::Work& work) noexcept;
  void hand_over(Gpu& gpu, Lane& lane) noexcept;
  void launch(Gpu& gpu, Lane& lane, std::uint32_t& graph);
  void launch_captured(Gpu& gpu, Lane& lane, std::uint32_t& graph);
  void measure_captured(Gpu& gpu, Lane& lane, const DeviceTensor& tensor, const device::StridedDesc* shape);
  std::size_t captured_in(Gpu& gpu, cuda::Graph& graph);
  static void add_captured(Captured& captured, const DeviceTensor& tensor);

  Places& places_;
  std::array<std::atomic<Gpu*>, kMost> gpus_{};
  std::vector<Gpu*> used_;  // the same
  std::vector<Captured> captured_;
  std::vector<cuda::Batch*> sent_;  // of the open attempt
  bool lost_any_ = false;           // of the open attempt
  bool exponents_ = false;          // the open attempt makes histograms
  std::size_t expected_records_ = 0;
  std::size_t expected_exponents_ = 0;
  std::uint64_t expected_chunks_ = 0;
  std::array<std::atomic<std::uint64_t>, kLostCauses> lost_{};
  std::atomic<std::uint64_t> gpu_ns_{0};
  std::atomic<std::uint64_t> histograms_lost_{0};
};

}  // namespace scalewatch::client
