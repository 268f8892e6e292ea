// The recorder's calls for tensors and scalers on GPUs.
#include <algorithm>
#include <new>
#include <utility>

#include "client_lib/include/scalewatch/scalewatch.h"
#include "client_lib/src/recorder.h"

namespace scalewatch::client {
namespace {

struct Dimension {
  std::uint64_t size;
  std::int64_t stride;
};

// The kernel takes elements with the last dimension fastest: dimensions by falling stride, joined where they can be. Nothing
// is left of a tensor that is contiguous but for the order of its dimensions. False: it is contiguous.
bool describe_shape(const StridedTensor& view, device::StridedDesc& shape) {
  Dimension dimensions[StridedTensor::kMaxDims];
  std::size_t count = 0;
  for (std::size_t i = 0; i < view.dims; ++i) {
    if (view.sizes[i] != 1) dimensions[count++] = {view.sizes[i], view.strides[i]};
  }
  const auto falling = [](const Dimension& a, const Dimension& b) {
    const auto magnitude = [](std::int64_t v) {
      return v < 0 ? 0 - static_cast<std::uint64_t>(v) : static_cast<std::uint64_t>(v);
    };
    return magnitude(a.stride) > magnitude(b.stride);
  };
  // By insertion: a stable sort allocates.
  for (std::size_t i = 1; i < count; ++i) {
    for (std::size_t j = i; j > 0 && falling(dimensions[j], dimensions[j - 1]); --j)
      std::swap(dimensions[j], dimensions[j - 1]);
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Dimension& next = dimensions[i];
    if (kept != 0 && dimensions[kept - 1].stride == next.stride * static_cast<std::int64_t>(next.size)) {
      dimensions[kept - 1] = {dimensions[kept - 1].size * next.size, next.stride};
    } else {
      dimensions[kept++] = next;
    }
  }
  if (kept == 0 || (kept == 1 && dimensions[0].stride == 1)) return false;
  shape.dims = static_cast<std::uint32_t>(kept);
  for (std::size_t i = 0; i < kept; ++i) {
    shape.sizes[i] = dimensions[i].size;
    shape.strides[i] = dimensions[i].stride;
  }
  return true;
}

}  // namespace

cuda::RecordTag Recorder::place(const DeviceTensor& tensor) noexcept {
  const Due due = due_of(tensor.tensor);
  if (!due.measure) return {};
  Measured* into = nullptr;
  try {
    into = place_or_null(tensor.tensor, due.send, tensor.scale, tensor.target);
  } catch (const std::bad_alloc&) {  // as if it had no room
  }
  if (into == nullptr) {
    devices_.count_lost(Devices::Lost::kBusy, 1);
    return {};
  }
  if (tensor.histogram) histogram_of(tensor.tensor, *into);  // what comes of it goes there
  return {static_cast<std::uint32_t>(into - mailbox_.sheet().data()), into->micro_batches++, cuda::kNone};
}

void Recorder::observe_device(std::uint32_t tensor, const void* data, std::uint64_t numel, const DevicePlace& on,
                              const DeviceMeasuring& how) {
  open_attempt();
  const DType dtype = declared(tensor).dtype;
  if (data == nullptr && numel != 0) throw Refused(SCALEWATCH_INVALID_ARGUMENT, "data is NULL");
  if (numel > device::kMaxNumel) throw Refused(SCALEWATCH_INVALID_ARGUMENT, "a tensor on a GPU has at most 2^33 elements");
  const Due due = due_of(tensor);
  if (!due.measure) return add_to(counters_.sampled_out, 1);
  const std::uint64_t entered = calls_++ % kSampling == 0 ? now_ns() : 0;
  DeviceTensor noted;
  noted.tensor = tensor;
  noted.target = how.target == DType::kUnspecified ? compute_dtype_ : how.target;
  noted.scale = how.scale_address != 0 ? 0 : how.scale;
  noted.histogram = wants_histogram(tensors_[tensor], due.send);
  if (!agrees(tensor, noted.scale, noted.target)) {
    throw Refused(SCALEWATCH_INVALID_ARGUMENT, "this tensor was observed in this attempt under another scale or target");
  }
  noted.desc.data = reinterpret_cast<std::uint64_t>(data);
  noted.desc.numel = numel;
  noted.desc.scale_address = how.scale_address;
  noted.desc.scale = how.scale;
  noted.desc.dtype = static_cast<device::U8>(dtype);
  noted.desc.target = static_cast<device::U8>(noted.target);
  noted.desc.chunk_shift = device::chunk_shift(noted.desc.dtype, numel);
  device::StridedDesc shape{};
  const bool strided = how.strided && numel != 0 && describe_shape(how.view, shape);
  if (how.transient) {
    devices_.measure(on, noted, strided ? &shape : nullptr);
  } else {
    devices_.note(on, noted, strided ? &shape : nullptr);
  }
  if (entered != 0) add_to(counters_.trainer_thread_ns, extrapolated(now_ns() - entered));
}

void Recorder::observe_scalar_device(const DevicePlace& where, std::uint64_t address, std::uint32_t kind, ScalarKind meaning,
                                     std::uint32_t scaler, std::uint32_t optimizer) {
  open_attempt();
  if (address == 0) return;
  devices_.note(where, {address, kind, 0}, {static_cast<std::uint32_t>(meaning), scaler, optimizer});
}

std::uint32_t Recorder::measure_device() {
  open_attempt();
  const std::uint64_t entered = now_ns();
  const std::uint32_t graph = devices_.launch();
  add_to(counters_.trainer_thread_ns, now_ns() - entered);
  return graph;
}

void Recorder::observe_graph(std::uint32_t graph, cuda::Stream stream) {
  open_attempt();
  if (!devices_.collect(graph, stream)) {
    throw Refused(SCALEWATCH_INVALID_ARGUMENT, "unknown graph: measure_device gives it while a stream is captured");
  }
}

}  // namespace scalewatch::client
