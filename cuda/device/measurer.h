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

// What one launch measures and gathers. ScalarSource::index is filled in.
struct Work {
  std::span<const device::TensorDesc> tensors;  // `strided`: 0, or 1 + index in shapes
  std::span<const device::StridedDesc> shapes;
  std::span<const device::ScalarSource> scalars;

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

  // What an attempt is likely to hold: the first memory is taken for it.
  void expect(std::size_t records, std::uint64_t chunks) noexcept;

  // ---- all of these: the context is current ----
  enum class Capture : std::uint8_t { kNo, kYes, kUnknown };
  // kUnknown: this stream can't be used now (another one is captured, or the device went quiet).
  [[nodiscard]] Capture capturing(Stream stream) noexcept;
  // A batch for one attempt's launches on this stream, with this much room left; null when none is to be had.
  [[nodiscard]] Batch* open(Stream stream, std::size_t records, std::size_t packet_bytes) noexcept;
  [[nodiscard]] static bool has_room(const Batch& batch, std::size_t records, std::size_t scalars,
                                     std::size_t packet_bytes) noexcept;
  // Two launches and at most one upload (only of what is not on the device already); for scalars alone one launch. The records
  // come after those that the batch holds: the caller adds the tags when it returned true.
  bool launch(Batch& batch, const Work& work) noexcept;
  // One launch. shape: null for a contiguous tensor.
  bool launch_one(Batch& batch, const device::TensorDesc& tensor, const device::StridedDesc* shape) noexcept;
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
  };

  [[nodiscard]] Pool* grown(std::size_t records, std::size_t packet_bytes) noexcept;
  bool lay_out(Batch& batch, std::size_t records, std::size_t packet_bytes) noexcept;
  // Whether the batch can be used; asks for the event of one that was abandoned.
  [[nodiscard]] bool is_free(Batch& batch) noexcept;
  [[nodiscard]] Batch* free_in(Pool& pool) noexcept;
  [[nodiscard]] device::Results results_of(const Batch& batch, const std::uint64_t* counter) const noexcept;
  bool launch_into(Batch& batch, const Work& work, const Scratch* scratch, const std::uint64_t* counter, bool last) noexcept;
  bool launch_one_into(Batch& batch, const device::TensorDesc& tensor, const device::StridedDesc* shape, const Scratch& scratch,
                       const std::uint64_t* counter) noexcept;
  template <class Parameters>
  bool start(Function function, std::uint32_t blocks, Stream stream, Parameters& parameters) noexcept;
  void begin_timing(Batch& batch) noexcept;
  void end_timing(Batch& batch) noexcept;

  Device device_;
  Memory memory_;
  Scratches scratches_;
  std::vector<Pool> pools_;  // the last one is in use
  std::vector<std::unique_ptr<Graph>> graphs_;
  std::size_t expected_records_ = 64;
  std::uint64_t expected_chunks_ = 0;
  std::uint32_t launches_ = 0;
  bool timing_ = false;
};

}  // namespace scalewatch::cuda
