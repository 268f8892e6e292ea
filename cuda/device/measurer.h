// Launches the kernels of one GPU for one monitor: fused for many tensors, at once for a transient one, into batches that the
// client's thread waits for.
//
// Nothing throws and nothing waits for the GPU. Memory is taken when it is needed first, or when more is needed than ever
// before; after that a launch calls the driver a fixed number of times, see launch(). Trainer's thread, unless said otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cuda/device/abi.h"
#include "cuda/device/batch.h"
#include "cuda/device/device.h"
#include "cuda/device/scratch.h"

namespace scalewatch::cuda {

class Packet;  // cuda/device/packet.h

// What one launch measures and gathers. ScalarSource::index is filled in.
struct Work {
  std::span<const device::TensorDesc> tensors;  // `strided`: 0, or 1 + index in shapes
  std::span<const device::StridedDesc> shapes;
  std::span<const device::ScalarSource> scalars;
  std::span<const device::TensorDesc> exponents = {};  // those of the tensors that a histogram is made of too

  [[nodiscard]] std::uint64_t chunks() const noexcept;
  [[nodiscard]] std::size_t packet_bytes() const noexcept;
};

// Launches that a captured CUDA graph repeats. Their results go to a ring on the device, one block a replay.
struct Graph {
  static constexpr std::uint32_t kSlots = 8;  // replays between two collections, at most
  static constexpr std::size_t kCopies = 4;   // collections on their way, at most

  Batch recording;  // takes the launches; its tags say what a block holds
  Scratch scratch;
  std::uint64_t* counter = nullptr;  // pinned
  bool closed = false;
  std::uint64_t collected = 0;
  Batch copies[kCopies];
};

class Measurer {
 public:
  static constexpr std::size_t kMaxGraphs = 64;
  static constexpr std::uint32_t kTimed = 17;  // one launch in so many has its time taken

  Measurer(const Driver& driver, int ordinal) noexcept;
  // Frees the memory, which waits for what the GPU has to do, but for work that does not end and for captured graphs: their
  // memory stays. Any thread; no other may use it any more.
  ~Measurer();
  Measurer(const Measurer&) = delete;
  Measurer& operator=(const Measurer&) = delete;

  [[nodiscard]] Device& device() noexcept { return device_; }
  [[nodiscard]] const Device& device() const noexcept { return device_; }

  // What an attempt is likely to hold: the first memory is taken for it. exponents: of one with histograms.
  void expect(std::size_t records, std::uint64_t chunks, std::size_t exponents) noexcept;

  // ---- all of these: the context is current ----
  enum class Capture : std::uint8_t { kNo, kYes, kUnknown };
  // kUnknown: this stream can't be used now (another one is captured, or the device went quiet).
  [[nodiscard]] Capture capturing(Stream stream) noexcept;
  // A batch for one attempt's launches on this stream, with this much room left; null when none is to be had. exponents: not 0
  // for one of the few that take histograms; where the GPU has no memory for those, there are none, and all
  // else goes on.
  [[nodiscard]] Batch* open(Stream stream, std::size_t records, std::size_t packet_bytes, std::size_t exponents = 0) noexcept;
  [[nodiscard]] static bool has_room(const Batch& batch, std::size_t records, std::size_t scalars, std::size_t packet_bytes,
                                     std::size_t exponents = 0) noexcept;
  // Two launches and at most one upload (only of what is not on the device already); for scalars alone one launch; with
  // histograms one launch and one fill more. The records and histograms come after those that the batch holds: the caller adds
  // the tags when it returned true.
  bool launch(Batch& batch, const Work& work) noexcept;
  // One launch. shape: null for a contiguous tensor.
  bool launch_one(Batch& batch, const device::TensorDesc& tensor, const device::StridedDesc* shape) noexcept;
  // The histogram alone: one launch, one fill and one upload.
  bool count_exponents(Batch& batch, const device::TensorDesc& tensor, const device::StridedDesc* shape) noexcept;
  // The results are complete: copies them, and the batch is the client's.
  bool send(Batch& batch) noexcept;

  // The graph that this stream's capture is recorded into; made if need be. Null when it can't be had.
  [[nodiscard]] Graph* record(Stream stream, std::size_t records, std::size_t packet_bytes, std::uint64_t chunks) noexcept;
  bool launch(Graph& graph, const Work& work, bool last) noexcept;
  bool launch_one(Graph& graph, const device::TensorDesc& tensor, const device::StridedDesc* shape) noexcept;
  // Copies what the replays so far left, in stream order. Null when none is to be had.
  [[nodiscard]] Batch* collect(Graph& graph, Stream stream) noexcept;

 private:
  struct Pool {
    std::unique_ptr<Batch[]> batches;
    std::size_t count = 0;
    std::size_t records = 0;       // room of each
    std::size_t packet_bytes = 0;  // room of each
    std::size_t exponents = 0;     // room of each
  };
  using Pools = std::vector<Pool>;  // the last one is in use

  [[nodiscard]] Pool* grown(Pools& pools, std::size_t records, std::size_t packet_bytes, std::size_t exponents) noexcept;
  bool lay_out(Batch& batch, std::size_t records, std::size_t packet_bytes, std::size_t exponents) noexcept;
  // Whether the batch can be used; asks for the event of one that was abandoned.
  [[nodiscard]] bool is_free(Batch& batch) noexcept;
  [[nodiscard]] Batch* free_in(Pool& pool) noexcept;
  [[nodiscard]] device::Results results_of(const Batch& batch, const std::uint64_t* counter) const noexcept;
  bool upload(Batch& batch, const Packet& packet) noexcept;
  // exponents, their first chunks and the shapes lie on the device.
  bool start_exponents(Batch& batch, DevicePointer exponents, DevicePointer first_chunk, DevicePointer shapes,
                       std::size_t count, std::uint64_t chunks) noexcept;
  bool launch_into(Batch& batch, const Work& work, const Scratch& scratch, const std::uint64_t* counter, bool last) noexcept;
  bool launch_one_into(Batch& batch, const device::TensorDesc& tensor, const device::StridedDesc* shape, const Scratch& scratch,
                       const std::uint64_t* counter) noexcept;
  template <class Parameters>
  bool start(Function function, std::uint32_t blocks, Stream stream, Parameters& parameters) noexcept;
  void begin_timing(Batch& batch) noexcept;
  void end_timing(Batch& batch) noexcept;

  Device device_;
  Memory memory_;
  Scratches scratches_;
  Pools pools_;
  Pools exponent_pools_;  // of batches that take histograms
  std::vector<std::unique_ptr<Graph>> graphs_;
  std::size_t expected_records_ = 64;
  std::uint64_t expected_chunks_ = 0;
  std::size_t expected_exponents_ = 0;
  bool no_exponents_ = false;  // there was no memory for them
  std::uint32_t launches_ = 0;
  bool timing_ = false;
};

}  // namespace scalewatch::cuda
