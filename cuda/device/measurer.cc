#include "cuda/device/measurer.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <new>

#include "cuda/device/packet.h"

namespace scalewatch::cuda {
namespace {

constexpr std::uint64_t kPoolBytes = 64ULL << 20;  // of batches; three there are in any case
constexpr std::size_t kFewestBatches = 3;
constexpr std::uint64_t kExponentPoolBytes = 16ULL << 20;  // of batches that take histograms; two there are in any case
constexpr std::size_t kFewestExponentBatches = 2;
constexpr std::uint64_t kHistogramBytes = device::kExponentBins * sizeof(std::uint64_t);
static_assert(kHistogramBytes == sizeof(ExponentCounts));
constexpr std::size_t kMostBatches = 16;
constexpr std::uint64_t kAlignment = 256;

constexpr std::uint64_t aligned(std::uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}
std::uint64_t block_bytes(std::size_t records) {
  return aligned(device::result_block_bytes(device::kMaxScalars, static_cast<std::uint32_t>(records)));
}

// Each graph of this process counts its replays from a number of its own.
std::uint64_t first_sequence() {
  static std::atomic<std::uint64_t> graphs{0};
  return (graphs.fetch_add(1) + 1) << 32U;
}

}  // namespace

Measurer::Measurer(const Driver& driver, int ordinal) noexcept
    : device_(driver, ordinal), memory_(device_), scratches_(device_, memory_) {}

// Freeing waits for the GPU: not for one that may never answer. And a graph may be replayed at any time to come.
Measurer::~Measurer() {
  const auto busy = [this](const Batch& batch) {
    const Batch::State state = batch.state.load(std::memory_order_acquire);
    if (state == Batch::State::kFree || batch.done == nullptr) return false;
    return state == Batch::State::kFilling || device_.driver().query_event(batch.done) == kErrorNotReady;
  };
  bool any = !graphs_.empty();
  for (const Pools* pools : {&pools_, &exponent_pools_}) {
    for (const Pool& pool : *pools) any = any || std::any_of(pool.batches.get(), pool.batches.get() + pool.count, busy);
  }
  if (!any) return;
  memory_.leave();
  device_.leave();
}

void Measurer::expect(std::size_t records, std::uint64_t chunks, std::size_t exponents) noexcept {
  expected_exponents_ = std::max(expected_exponents_, exponents);
  expected_records_ = std::max(expected_records_, records);
  expected_chunks_ = std::max(expected_chunks_, chunks);
}

Measurer::Capture Measurer::capturing(Stream stream) noexcept {
  int status = kNotCapturing;
  if (!device_.call(device_.driver().is_capturing, stream, &status)) return Capture::kUnknown;
  return status == kNotCapturing ? Capture::kNo : Capture::kYes;
}

// ---- batches --------------------------------------------------------------------------------------------------------

// Everything that a batch needs, or nothing.
bool Measurer::lay_out(Batch& batch, std::size_t records, std::size_t packet_bytes, std::size_t exponents) noexcept {
  batch.device = &device_;
  batch.block_bytes = block_bytes(records);
  batch.record_room = records;
  batch.record_tags.reserve(records);
  batch.scalar_tags.reserve(device::kMaxScalars);
  batch.exponent_room = exponents;
  batch.exponent_tags.reserve(exponents);
  batch.packet_room = packet_bytes;
  batch.done = memory_.event(false);
  return batch.done != nullptr;
}

Measurer::Pool* Measurer::grown(Pools& pools, std::size_t records, std::size_t packet_bytes, std::size_t exponents) noexcept {
  Pool made;
  made.records = std::bit_ceil(std::max(records, expected_records_));
  made.exponents = exponents == 0 ? 0 : std::max(exponents, expected_exponents_);
  made.packet_bytes = aligned(std::max(packet_bytes, usual_packet_bytes(made.records, made.exponents)));
  const std::uint64_t results = block_bytes(made.records) + aligned(made.exponents * kHistogramBytes);
  const std::uint64_t each = results + made.packet_bytes;
  made.count = exponents == 0 ? std::clamp<std::uint64_t>(kPoolBytes / each, kFewestBatches, kMostBatches)
                              : std::clamp<std::uint64_t>(kExponentPoolBytes / each, kFewestExponentBatches, kMostBatches);
  const RelaxedCapture relaxed(device_);
  try {
    pools.reserve(pools.size() + 1);
    made.batches = std::make_unique<Batch[]>(made.count);
    const bool can_do_without = exponents != 0;
    const DevicePointer on_device = memory_.device_bytes(each * made.count, can_do_without);
    unsigned char* const pinned = on_device == 0 ? nullptr : memory_.host_bytes(each * made.count, can_do_without);
    no_exponents_ = no_exponents_ || (can_do_without && pinned == nullptr);
    if (pinned == nullptr) return nullptr;
    for (std::size_t i = 0; i < made.count; ++i) {
      Batch& batch = made.batches[i];
      batch.block = on_device + i * each;
      batch.host = pinned + i * each;
      batch.packet = batch.block + results;
      batch.staging = batch.host + results;
      batch.begin = memory_.event(true);
      batch.end = memory_.event(true);
      if (!lay_out(batch, made.records, made.packet_bytes, made.exponents) || batch.begin == nullptr || batch.end == nullptr) {
        return nullptr;
      }
    }
    pools.push_back(std::move(made));
    return &pools.back();
  } catch (const std::bad_alloc&) {
    device_.fail(Cause::kOutOfMemory, kErrorOutOfMemory);
    return nullptr;
  }
}

bool Measurer::is_free(Batch& batch) noexcept {
  const Batch::State state = batch.state.load(std::memory_order_acquire);
  if (state != Batch::State::kAbandoned) return state == Batch::State::kFree;
  bool done = false;
  device_.call([&] {
    const Status status = device_.driver().query_event(batch.done);
    done = status == kSuccess;
    return status == kErrorNotReady ? kSuccess : status;
  });
  if (done) batch.state.store(Batch::State::kFree, std::memory_order_relaxed);
  return done;
}

Batch* Measurer::free_in(Pool& pool) noexcept {
  for (std::size_t i = 0; i < pool.count; ++i) {
    if (is_free(pool.batches[i])) return &pool.batches[i];
  }
  return nullptr;
}

Batch* Measurer::open(Stream stream, std::size_t records, std::size_t packet_bytes, std::size_t exponents) noexcept {
  if (exponents != 0 && no_exponents_) return nullptr;
  Pools& pools = exponents == 0 ? pools_ : exponent_pools_;
  Pool* pool = pools.empty() ? nullptr : &pools.back();
  if (pool == nullptr || pool->records < records || pool->packet_bytes < packet_bytes || pool->exponents < exponents) {
    const std::size_t twice = pool == nullptr ? 1 : 2;
    pool = grown(pools, records * twice, packet_bytes * twice, exponents * twice);
  }
  Batch* batch = pool == nullptr ? nullptr : free_in(*pool);
  if (batch == nullptr) return nullptr;
  batch->state.store(Batch::State::kFilling, std::memory_order_relaxed);
  batch->stream = stream;
  batch->timed = false;
  batch->record_tags.clear();
  batch->scalar_tags.clear();
  batch->exponent_tags.clear();
  batch->packet_used = 0;
  return batch;
}

bool Measurer::has_room(const Batch& batch, std::size_t records, std::size_t scalars, std::size_t packet_bytes,
                        std::size_t exponents) noexcept {
  return batch.exponent_tags.size() + exponents <= batch.exponent_room &&
         batch.record_tags.size() + records <= batch.record_room && batch.scalar_tags.size() + scalars <= device::kMaxScalars &&
         batch.packet_used + packet_bytes <= batch.packet_room;
}

// ---- launches -------------------------------------------------------------------------------------------------------

template <class Parameters>
bool Measurer::start(Function function, std::uint32_t blocks, Stream stream, Parameters& parameters) noexcept {
  void* arguments[] = {&parameters};
  return device_.call(device_.driver().launch, function, blocks, 1U, 1U, device::kThreads, 1U, 1U, 0U, stream,
                      static_cast<void**>(arguments), static_cast<void**>(nullptr));
}

device::Results Measurer::results_of(const Batch& batch, const std::uint64_t* counter) const noexcept {
  // Pinned memory has the same address on the device.
  return {batch.block,
          batch.block_bytes,
          device::records_offset(device::kMaxScalars),
          reinterpret_cast<std::uint64_t>(counter),
          batch.slots,
          0};
}

void Measurer::begin_timing(Batch& batch) noexcept {
  timing_ = ++launches_ % kTimed == 0 && !batch.timed && batch.begin != nullptr;
  if (timing_) device_.call(device_.driver().record_event, batch.begin, batch.stream);
}

void Measurer::end_timing(Batch& batch) noexcept {
  if (timing_) batch.timed = device_.call(device_.driver().record_event, batch.end, batch.stream);
}

bool Measurer::upload(Batch& batch, const Packet& packet) noexcept {
  const auto [offset, bytes] = packet.dirty();
  if (bytes == 0 || device_.call(device_.driver().upload_async, batch.packet + offset,
                                 static_cast<const void*>(batch.staging + offset), bytes, batch.stream)) {
    return true;
  }
  batch.packet_known = 0;  // nobody knows what lies there
  return false;
}

bool Measurer::launch_into(Batch& batch, const Work& work, const Scratch& scratch, const std::uint64_t* counter,
                           bool last) noexcept {
  Packet packet(batch);
  const auto first_scalar = static_cast<std::uint32_t>(batch.scalar_tags.size());
  const DevicePointer scalars = packet.add_scalars(work.scalars, first_scalar);
  const DevicePointer tensors = packet.add(work.tensors);
  std::uint64_t chunks = 0;
  const DevicePointer first_chunk = packet.add_first_chunks(work.tensors, chunks);
  const DevicePointer shapes = work.shapes.empty() ? 0 : packet.add(work.shapes);
  std::uint64_t exponent_chunks = 0;
  const DevicePointer exponents = packet.add(work.exponents);
  const DevicePointer first_exponent_chunk =
      work.exponents.empty() ? 0 : packet.add_first_chunks(work.exponents, exponent_chunks);
  if (!upload(batch, packet)) return false;
  const device::Results results = results_of(batch, counter);
  const auto scalar_count = static_cast<std::uint32_t>(work.scalars.size());
  const auto tensor_count = static_cast<std::uint32_t>(work.tensors.size());
  const std::uint32_t advance = last ? 1 : 0;
  if (tensor_count == 0) {
    device::GatherParams gather{scalars, results, scalar_count, advance};
    return start(device_.gather(), 1, batch.stream, gather);
  }
  begin_timing(batch);
  if (chunks != 0) {
    device::MeasureParams measure{tensors, first_chunk, shapes, scratch.partials, tensor_count, 0};
    if (!start(device_.measure(), device::measure_grid(chunks, device_.processors()), batch.stream, measure)) return false;
  }
  const auto first_record = static_cast<std::uint32_t>(batch.record_tags.size());
  device::FinishParams finish{tensors, first_chunk,  scratch.partials, scalars,      scratch.ticket,
                              results, tensor_count, scalar_count,     first_record, advance};
  if (!start(device_.finish(), device::finish_grid(tensor_count, device_.processors()), batch.stream, finish)) return false;
  if (!work.exponents.empty() &&
      !start_exponents(batch, exponents, first_exponent_chunk, shapes, work.exponents.size(), exponent_chunks)) {
    return false;
  }
  end_timing(batch);
  return true;
}

bool Measurer::start_exponents(Batch& batch, DevicePointer exponents, DevicePointer first_chunk, DevicePointer shapes,
                               std::size_t count, std::uint64_t chunks) noexcept {
  const DevicePointer counts = batch.block + batch.block_bytes + batch.exponent_tags.size() * kHistogramBytes;
  if (!device_.call(device_.driver().set_async, counts, static_cast<unsigned char>(0), count * kHistogramBytes, batch.stream)) {
    return false;
  }
  if (chunks == 0) return true;
  device::ExponentsParams params{exponents, first_chunk, shapes, counts, static_cast<std::uint32_t>(count), 0};
  return start(device_.exponents(), device::measure_grid(chunks, device_.processors()), batch.stream, params);
}

bool Measurer::launch_one_into(Batch& batch, const device::TensorDesc& tensor, const device::StridedDesc* shape,
                               const Scratch& scratch, const std::uint64_t* counter) noexcept {
  device::MeasureOneParams one{};
  one.tensor = tensor;
  one.tensor.strided = shape == nullptr ? 0 : 1;
  if (shape != nullptr) one.shape = *shape;
  one.partials = scratch.partials;
  one.ticket = scratch.ticket;
  one.results = results_of(batch, counter);
  one.record = static_cast<std::uint32_t>(batch.record_tags.size());
  begin_timing(batch);
  const std::uint32_t blocks = device::one_grid(device::chunk_count(tensor), device_.processors());
  if (!start(device_.measure_one(), blocks, batch.stream, one)) return false;
  end_timing(batch);
  return true;
}

bool Measurer::launch(Batch& batch, const Work& work) noexcept {
  if (work.tensors.empty()) return launch_into(batch, work, Scratch{}, nullptr, false);
  const Scratch* scratch = scratches_.of(batch.stream, work.chunks(), expected_chunks_);
  return scratch != nullptr && launch_into(batch, work, *scratch, nullptr, false);
}

bool Measurer::launch_one(Batch& batch, const device::TensorDesc& tensor, const device::StridedDesc* shape) noexcept {
  const Scratch* scratch = scratches_.of(batch.stream, device::chunk_count(tensor), expected_chunks_);
  return scratch != nullptr && launch_one_into(batch, tensor, shape, *scratch, nullptr);
}

bool Measurer::count_exponents(Batch& batch, const device::TensorDesc& tensor, const device::StridedDesc* shape) noexcept {
  Packet packet(batch);
  device::TensorDesc one = tensor;
  one.strided = shape == nullptr ? 0 : 1;
  const std::span<const device::TensorDesc> tensors(&one, 1);
  std::uint64_t chunks = 0;
  const DevicePointer at = packet.add(tensors);
  const DevicePointer first_chunk = packet.add_first_chunks(tensors, chunks);
  const DevicePointer shapes = shape == nullptr ? 0 : packet.add(std::span(shape, 1));
  return upload(batch, packet) && start_exponents(batch, at, first_chunk, shapes, 1, chunks);
}

bool Measurer::send(Batch& batch) noexcept {
  const std::size_t bytes = batch.exponents() != 0 ? batch.block_bytes + batch.exponents() * kHistogramBytes
                                                   : device::records_offset(device::kMaxScalars) +
                                                         batch.record_tags.size() * sizeof(device::DeviceRecord);
  if (!device_.call(device_.driver().download_async, static_cast<void*>(batch.host), batch.block, bytes, batch.stream)) {
    return false;
  }
  return device_.call(device_.driver().record_event, batch.done, batch.stream);
}

// ---- graphs ---------------------------------------------------------------------------------------------------------

Graph* Measurer::record(Stream stream, std::size_t records, std::size_t packet_bytes, std::uint64_t chunks) noexcept {
  const auto open = std::find_if(graphs_.begin(), graphs_.end(),
                                 [stream](const auto& graph) { return !graph->closed && graph->recording.stream == stream; });
  const RelaxedCapture relaxed(device_);
  if (open != graphs_.end()) {
    Graph& graph = **open;
    if (!has_room(graph.recording, records, 0, packet_bytes)) return nullptr;
    if (graph.scratch.chunks < chunks && !scratches_.make(graph.scratch, stream, chunks)) return nullptr;
    return &graph;
  }
  if (graphs_.size() >= kMaxGraphs) return nullptr;
  try {
    auto graph = std::make_unique<Graph>();
    graphs_.reserve(graphs_.size() + 1);
    Batch& recording = graph->recording;
    const std::size_t room = std::bit_ceil(std::max(records, expected_records_));
    const std::size_t packet_room = aligned(std::max(packet_bytes, usual_packet_bytes(room, 0)));
    const std::uint64_t ring = block_bytes(room) * Graph::kSlots;
    const DevicePointer on_device = memory_.device_bytes(ring + packet_room);
    unsigned char* const pinned =
        on_device == 0 ? nullptr : memory_.host_bytes(kAlignment + packet_room + ring * Graph::kCopies);
    if (pinned == nullptr || !lay_out(recording, room, packet_room, 0)) return nullptr;
    recording.stream = stream;
    recording.slots = Graph::kSlots;
    recording.block = on_device;
    recording.packet = on_device + ring;
    recording.staging = pinned + kAlignment;
    graph->counter = reinterpret_cast<std::uint64_t*>(pinned);
    *graph->counter = graph->collected = first_sequence();
    for (std::size_t i = 0; i < Graph::kCopies; ++i) {
      Batch& copy = graph->copies[i];
      if (!lay_out(copy, room, 0, 0)) return nullptr;
      copy.slots = Graph::kSlots;
      copy.block = on_device;
      copy.host = pinned + kAlignment + packet_room + i * ring;
      copy.collected = &graph->collected;
    }
    if (!scratches_.make(graph->scratch, stream, std::max(chunks, expected_chunks_))) return nullptr;
    graphs_.push_back(std::move(graph));
    return graphs_.back().get();
  } catch (const std::bad_alloc&) {
    device_.fail(Cause::kOutOfMemory, kErrorOutOfMemory);
    return nullptr;
  }
}

bool Measurer::launch(Graph& graph, const Work& work, bool last) noexcept {
  graph.closed = graph.closed || last;
  return launch_into(graph.recording, work, graph.scratch, graph.counter, last);
}

bool Measurer::launch_one(Graph& graph, const device::TensorDesc& tensor, const device::StridedDesc* shape) noexcept {
  return launch_one_into(graph.recording, tensor, shape, graph.scratch, graph.counter);
}

Batch* Measurer::collect(Graph& graph, Stream stream) noexcept {
  for (Batch& copy : graph.copies) {
    if (!is_free(copy)) continue;
    copy.record_tags.clear();
    copy.scalar_tags.clear();
    copy.stream = stream;
    const std::size_t bytes = copy.block_bytes * copy.slots;
    if (!device_.call(device_.driver().download_async, static_cast<void*>(copy.host), copy.block, bytes, stream) ||
        !device_.call(device_.driver().record_event, copy.done, stream)) {
      return nullptr;
    }
    copy.state.store(Batch::State::kSent, std::memory_order_relaxed);
    return &copy;
  }
  return nullptr;
}

// ---- sizes ----------------------------------------------------------------------------------------------------------

std::uint64_t Work::chunks() const noexcept {
  std::uint64_t sum = 0;
  for (const device::TensorDesc& tensor : tensors) sum += device::chunk_count(tensor);
  return sum;
}

std::size_t Work::packet_bytes() const noexcept {
  return scalars.size_bytes() + tensors.size_bytes() + (tensors.size() + 1) * sizeof(std::uint64_t) + shapes.size_bytes() +
         exponents.size_bytes() + (exponents.size() + 1) * sizeof(std::uint64_t);
}

}  // namespace scalewatch::cuda
