#include "client_lib/src/devices.h"

#include <algorithm>

namespace scalewatch::client {
namespace {

constexpr std::size_t kScalesApart = 8;  // different scales of one launch, kept room for

// The scalar that is the scale at an address: its tag says so.
cuda::ScalarTag scale_tag(std::uint64_t address) noexcept {
  return {static_cast<std::uint32_t>(ScalarKind::kTensorScale), static_cast<std::uint32_t>(address),
          static_cast<std::uint32_t>(address >> 32U)};
}

// Why something that a measurer was to do was not done.
Devices::Lost why(const cuda::Measurer& measurer) noexcept {
  return measurer.device().quiet() ? Devices::Lost::kQuiet : Devices::Lost::kBusy;
}

// Of the next record.
std::uint32_t record_number(const cuda::Batch& batch) noexcept {
  return static_cast<std::uint32_t>(batch.record_tags.size());
}

std::uint32_t find_scale(const std::vector<cuda::ScalarTag>& tags, std::uint64_t address) noexcept {
  const cuda::ScalarTag wanted = scale_tag(address);
  for (std::size_t i = 0; i < tags.size(); ++i) {
    const cuda::ScalarTag& tag = tags[i];
    if (tag.kind == wanted.kind && tag.first == wanted.first && tag.second == wanted.second) {
      return static_cast<std::uint32_t>(i);
    }
  }
  return cuda::kNone;
}

}  // namespace

Devices::~Devices() {
  release();
}

void Devices::release() {
  for (std::atomic<Gpu*>& gpu : gpus_) delete gpu.exchange(nullptr);
  used_.clear();
}

void Devices::Lane::clear() noexcept {
  tensors.clear();
  descs.clear();
  shapes.clear();
  exponents.clear();
  scalars.clear();
  scalar_tags.clear();
}

// ---- noting ---------------------------------------------------------------------------------------------------------

Devices::Gpu& Devices::gpu(int ordinal) {
  std::atomic<Gpu*>& place = gpus_[static_cast<std::size_t>(ordinal)];
  if (Gpu* known = place.load(std::memory_order_relaxed)) return *known;
  used_.reserve(kMost);
  sent_.reserve(kMostBatches);
  auto made = std::make_unique<Gpu>(ordinal);
  made->measurer.expect(expected_records_, expected_chunks_, expected_exponents_);
  used_.push_back(made.get());
  place.store(made.get(), std::memory_order_release);
  return *made.release();
}

Devices::Lane* Devices::lane(Gpu& gpu, cuda::Stream stream) noexcept {
  Lane* free = nullptr;
  for (Lane& each : gpu.lanes) {
    if (each.used && each.stream == stream) return &each;
    if (free == nullptr && !each.used) free = &each;
  }
  if (free == nullptr) return nullptr;
  free->used = true;
  free->stream = stream;
  return free;
}

void Devices::lose(Lost cause, std::uint64_t records) noexcept {
  lost_any_ = true;
  count_lost(cause, records);
}

void Devices::note(const DevicePlace& where, const DeviceTensor& tensor, const device::StridedDesc* shape) {
  Gpu& on = gpu(where.device);
  if (on.measurer.device().quiet()) return lose(Lost::kQuiet, 1);
  Lane* const to = lane(on, where.stream);
  if (to == nullptr || to->tensors.size() >= kMostNoted) return lose(Lost::kBusy, 1);
  device::TensorDesc desc = tensor.desc;
  if (shape != nullptr) {
    to->shapes.push_back(*shape);
    desc.strided = static_cast<std::uint32_t>(to->shapes.size());
  }
  to->tensors.push_back(tensor);
  to->descs.push_back(desc);
  if (tensor.histogram) to->exponents.push_back(desc);
}

void Devices::note(const DevicePlace& where, const device::ScalarSource& source, const cuda::ScalarTag& tag) {
  Gpu& on = gpu(where.device);
  if (on.measurer.device().quiet()) return lose(Lost::kQuiet, 1);
  Lane* const to = lane(on, where.stream);
  if (to == nullptr || to->scalars.size() >= device::kMaxScalars / 2) return lose(Lost::kBusy, 1);
  to->scalars.push_back(source);
  to->scalar_tags.push_back(tag);
}

// ---- launching ------------------------------------------------------------------------------------------------------

cuda::Batch* Devices::room(Gpu& gpu, Lane& lane, cuda::Work& work) noexcept {
  const std::size_t scalars = work.scalars.size() + kScalesApart;
  const auto bytes = [&work] { return work.packet_bytes() + kScalesApart * sizeof(device::ScalarSource); };
  const auto without_exponents = [&] {
    histograms_lost_.fetch_add(work.exponents.size(), std::memory_order_relaxed);
    work.exponents = {};
  };
  const auto fits = [&] {
    return cuda::Measurer::has_room(*lane.batch, work.tensors.size(), scalars, bytes(), work.exponents.size());
  };
  if (lane.batch != nullptr) {
    if (fits()) return lane.batch;
    if (!work.exponents.empty() && lane.batch->exponent_room == 0) without_exponents();
    if (fits()) return lane.batch;
    hand_over(gpu, lane);
  }
  // Of the few batches that take histograms: one for all that the attempt has on this stream.
  if (exponents_) {
    lane.batch = gpu.measurer.open(lane.stream, work.tensors.size(), bytes(), std::max<std::size_t>(work.exponents.size(), 1));
    if (lane.batch != nullptr) return lane.batch;
    without_exponents();
  }
  lane.batch = gpu.measurer.open(lane.stream, work.tensors.size(), bytes());
  return lane.batch;
}

void Devices::hand_over(Gpu& gpu, Lane& lane) noexcept {
  cuda::Batch* const batch = std::exchange(lane.batch, nullptr);
  if (batch == nullptr) return;
  const std::uint64_t records = batch->record_tags.size();
  // One that can't be sent is never used again: its launches may still run.
  if (sent_.size() >= kMostBatches) return lose(Lost::kBusy, records);
  if (gpu.measurer.device().quiet()) return lose(Lost::kQuiet, records);
  if (!gpu.measurer.send(*batch)) return lose(why(gpu.measurer), records);
  batch->state.store(cuda::Batch::State::kSent, std::memory_order_relaxed);
  sent_.push_back(batch);
}

namespace {

// Adds the scales that the tensors point to, unless the batch gathered them already.
template <class Lane>
void add_scales(Lane& lane, const std::vector<cuda::ScalarTag>& gathered) {
  for (const DeviceTensor& tensor : lane.tensors) {
    const std::uint64_t address = tensor.desc.scale_address;
    if (address == 0 || find_scale(gathered, address) != cuda::kNone) continue;
    if (find_scale(lane.scalar_tags, address) != cuda::kNone) continue;
    if (gathered.size() + lane.scalars.size() >= device::kMaxScalars) return;
    lane.scalars.push_back({address, device::kScalarFloat, 0});
    lane.scalar_tags.push_back(scale_tag(address));
  }
}

}  // namespace

std::uint32_t Devices::launch() {
  std::uint32_t graph = kNoGraph;
  for (Gpu* gpu : used_) {
    const bool any = std::ranges::any_of(gpu->lanes, [](const Lane& l) { return !l.empty() || l.recording != nullptr; });
    if (!any) continue;
    const cuda::Device::Current current(gpu->measurer.device());
    for (Lane& lane : gpu->lanes) launch(*gpu, lane, graph);
  }
  return graph;
}

// The context is current, or the device is quiet.
void Devices::launch(Gpu& gpu, Lane& lane, std::uint32_t& graph) {
  if (lane.empty() && lane.recording == nullptr) return;
  const std::uint64_t records = lane.tensors.size();
  const auto give_up = [&](Lost cause) {
    lose(cause, records);
    lane.clear();
  };
  cuda::Measurer& measurer = gpu.measurer;
  if (measurer.device().quiet()) return give_up(Lost::kQuiet);
  const cuda::Measurer::Capture capture = lane.capture = measurer.capturing(lane.stream);
  if (capture == cuda::Measurer::Capture::kUnknown) return give_up(why(measurer));
  if (capture == cuda::Measurer::Capture::kYes) return launch_captured(gpu, lane, graph);
  if (cuda::Graph* left = std::exchange(lane.recording, nullptr)) left->closed = true;  // its capture ended without a launch
  if (lane.empty()) return;
  cuda::Work work = lane.work();
  work.exponents = lane.exponents;
  cuda::Batch* const batch = room(gpu, lane, work);
  if (batch == nullptr) return give_up(why(measurer));
  add_scales(lane, batch->scalar_tags);
  work.scalars = lane.scalars;
  if (!measurer.launch(*batch, work)) return give_up(why(measurer));
  batch->scalar_tags.insert(batch->scalar_tags.end(), lane.scalar_tags.begin(), lane.scalar_tags.end());
  for (const DeviceTensor& tensor : lane.tensors) {
    if (tensor.histogram && !work.exponents.empty()) batch->exponent_tags.push_back(record_number(*batch));
    cuda::RecordTag& tag = batch->record_tags.emplace_back(places_.place(tensor));
    if (tensor.desc.scale_address != 0) tag.scale = find_scale(batch->scalar_tags, tensor.desc.scale_address);
  }
  lane.clear();
}

void Devices::measure(const DevicePlace& where, const DeviceTensor& tensor, const device::StridedDesc* shape) {
  Gpu& on = gpu(where.device);
  cuda::Measurer& measurer = on.measurer;
  if (measurer.device().quiet()) return lose(Lost::kQuiet, 1);
  Lane* const to = lane(on, where.stream);
  if (to == nullptr) return lose(Lost::kBusy, 1);
  const cuda::Device::Current current(measurer.device());
  const cuda::Measurer::Capture capture = current ? measurer.capturing(to->stream) : cuda::Measurer::Capture::kUnknown;
  if (capture == cuda::Measurer::Capture::kUnknown) return lose(why(measurer), 1);
  if (capture == cuda::Measurer::Capture::kYes) return measure_captured(on, *to, tensor, shape);
  cuda::Work one{{&tensor.desc, 1}, {shape, shape == nullptr ? 0U : 1U}, {}};
  if (tensor.histogram) one.exponents = one.tensors;
  cuda::Batch* const batch = room(on, *to, one);
  if (batch == nullptr) return lose(why(measurer), 1);
  const std::uint64_t address = tensor.desc.scale_address;
  if (address != 0 && find_scale(batch->scalar_tags, address) == cuda::kNone) {
    const device::ScalarSource source{address, device::kScalarFloat, 0};
    if (!measurer.launch(*batch, {{}, {}, {&source, 1}})) return lose(why(measurer), 1);
    batch->scalar_tags.push_back(scale_tag(address));
  }
  if (!measurer.launch_one(*batch, tensor.desc, shape)) return lose(why(measurer), 1);
  if (!one.exponents.empty() && measurer.count_exponents(*batch, tensor.desc, shape)) {
    batch->exponent_tags.push_back(record_number(*batch));
  }
  cuda::RecordTag& tag = batch->record_tags.emplace_back(places_.place(tensor));
  if (address != 0) tag.scale = find_scale(batch->scalar_tags, address);
}

void Devices::end(Attempt& attempt) {
  std::uint32_t graph = kNoGraph;
  for (Gpu* gpu : used_) {
    const bool any = std::ranges::any_of(gpu->lanes, [](const Lane& l) { return l.used; });
    if (!any) continue;
    const cuda::Device::Current current(gpu->measurer.device());
    for (Lane& lane : gpu->lanes) {
      const bool asks = !lane.empty() || lane.recording != nullptr;
      launch(*gpu, lane, graph);
      if (lane.batch != nullptr && !asks) lane.capture = gpu->measurer.capturing(lane.stream);
      if (lane.batch != nullptr && lane.capture != cuda::Measurer::Capture::kNo) {
        // Its copy would become a part of the trainer's graph.
        lose(why(gpu->measurer), std::exchange(lane.batch, nullptr)->record_tags.size());
      }
      hand_over(*gpu, lane);
      lane.used = lane.recording != nullptr;
    }
  }
  exponents_ = false;
  std::swap(attempt.batches, sent_);
  sent_.clear();
  if (std::exchange(lost_any_, false)) attempt.statistics_lost = LossCause::kDevice;
}

// ---- graphs ---------------------------------------------------------------------------------------------------------

std::size_t Devices::captured_in(Gpu& gpu, cuda::Graph& graph) {
  const auto known = std::ranges::find(captured_, &graph, &Captured::graph);
  if (known != captured_.end()) return static_cast<std::size_t>(known - captured_.begin());
  captured_.push_back({&gpu, &graph, {}});
  return captured_.size() - 1;
}

// Replays make no histograms: which attempts make them is the host's to say.
void Devices::add_captured(Captured& captured, const DeviceTensor& tensor) {
  captured.tensors.push_back(tensor);
  captured.tensors.back().histogram = false;
}

void Devices::launch_captured(Gpu& gpu, Lane& lane, std::uint32_t& graph) {
  const cuda::Work work = lane.work();
  const std::size_t bytes = work.packet_bytes() + kScalesApart * sizeof(device::ScalarSource);
  cuda::Graph* const into = gpu.measurer.record(lane.stream, work.tensors.size(), bytes, work.chunks());
  lane.recording = nullptr;
  const auto give_up = [&](Lost cause) {
    lose(cause, lane.tensors.size());
    lane.clear();
  };
  if (into == nullptr) return give_up(why(gpu.measurer));
  cuda::Batch& recording = into->recording;
  add_scales(lane, recording.scalar_tags);
  if (!gpu.measurer.launch(*into, lane.work(), true)) return give_up(why(gpu.measurer));
  const std::size_t index = captured_in(gpu, *into);
  recording.scalar_tags.insert(recording.scalar_tags.end(), lane.scalar_tags.begin(), lane.scalar_tags.end());
  recording.record_tags.resize(recording.record_tags.size() + lane.tensors.size());
  for (const DeviceTensor& tensor : lane.tensors) add_captured(captured_[index], tensor);
  graph = static_cast<std::uint32_t>(index);
  lane.clear();
}

void Devices::measure_captured(Gpu& gpu, Lane& lane, const DeviceTensor& tensor, const device::StridedDesc* shape) {
  const std::uint64_t chunks = device::chunk_count(tensor.desc);
  cuda::Graph* const into = gpu.measurer.record(lane.stream, 1, sizeof(device::ScalarSource), chunks);
  if (into == nullptr) return lose(why(gpu.measurer), 1);
  lane.recording = into;
  cuda::Batch& recording = into->recording;
  const std::uint64_t address = tensor.desc.scale_address;
  if (address != 0 && find_scale(recording.scalar_tags, address) == cuda::kNone) {
    const device::ScalarSource source{address, device::kScalarFloat, 0};
    if (!gpu.measurer.launch(*into, {{}, {}, {&source, 1}}, false)) return lose(why(gpu.measurer), 1);
    recording.scalar_tags.push_back(scale_tag(address));
  }
  if (!gpu.measurer.launch_one(*into, tensor.desc, shape)) return lose(why(gpu.measurer), 1);
  recording.record_tags.emplace_back();
  add_captured(captured_[captured_in(gpu, *into)], tensor);
}

bool Devices::collect(std::uint32_t graph, cuda::Stream stream) {
  if (graph >= captured_.size()) return false;
  Captured& from = captured_[graph];
  cuda::Measurer& measurer = from.gpu->measurer;
  const auto give_up = [&](Lost cause) {
    lose(cause, from.tensors.size());
    return true;
  };
  if (measurer.device().quiet()) return give_up(Lost::kQuiet);
  if (sent_.size() >= kMostBatches) return give_up(Lost::kBusy);
  const cuda::Device::Current current(measurer.device());
  cuda::Batch* const batch = current ? measurer.collect(*from.graph, stream) : nullptr;
  if (batch == nullptr) return give_up(why(measurer));
  const std::vector<cuda::ScalarTag>& scalars = from.graph->recording.scalar_tags;
  batch->scalar_tags.assign(scalars.begin(), scalars.end());
  for (const DeviceTensor& tensor : from.tensors) {
    cuda::RecordTag& tag = batch->record_tags.emplace_back(places_.place(tensor));
    if (tensor.desc.scale_address != 0) tag.scale = find_scale(scalars, tensor.desc.scale_address);
  }
  sent_.push_back(batch);
  return true;
}

std::uint64_t Devices::calls_so_far() const noexcept {
  std::uint64_t sum = 0;
  for (const Gpu* gpu : used_) sum += gpu->measurer.device().calls();
  return sum;
}

// ---- any thread -----------------------------------------------------------------------------------------------------

std::uint64_t Devices::lost() const noexcept {
  std::uint64_t sum = 0;
  for (const auto& cause : lost_) sum += cause.load(std::memory_order_relaxed);
  return sum;
}

std::uint64_t Devices::driver_calls() const noexcept {
  std::uint64_t sum = 0;
  for (const auto& each : gpus_) {
    if (const Gpu* gpu = each.load(std::memory_order_acquire)) sum += gpu->measurer.device().calls();
  }
  return sum;
}

std::uint64_t Devices::poll_calls() const noexcept {
  std::uint64_t sum = 0;
  for (const auto& each : gpus_) {
    if (const Gpu* gpu = each.load(std::memory_order_acquire)) sum += gpu->measurer.device().polls();
  }
  return sum;
}

const cuda::Device* Devices::device(int ordinal) const noexcept {
  const Gpu* gpu = gpus_[static_cast<std::size_t>(ordinal)].load(std::memory_order_acquire);
  return gpu == nullptr ? nullptr : &gpu->measurer.device();
}

}  // namespace scalewatch::client
