// The driver's functions, as cuda/device/driver.h declares them, and those few more that a trainer calls.
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>

#include "cuda/device/abi.h"
#include "tests/fake_cuda/state.h"
#include "tests/simt/kernels.h"

// A test that counts what a thread does may define this: it is called around every driver function.
extern "C" __attribute__((weak)) void fake_cuda_inside(bool inside);

namespace fake_cuda {
namespace {

constexpr int kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kNotInitialized = 3, kNoDevice = 100, kInvalidDevice = 101;
constexpr int kInvalidImage = 200, kInvalidContext = 201, kNoBinaryForGpu = 209, kInvalidHandle = 400, kNotFound = 500;
constexpr int kNotReady = 600, kIllegalAddress = 700, kCaptureUnsupported = 900;

using Lock = std::lock_guard<std::recursive_mutex>;

// Status that the call is made to fail with; 0 = none.
int injected(State& s, const std::string& name) {
  const std::uint64_t number = s.call_number++;
  int status = name == "cuGetErrorName" ? 0 : s.failing;
  if (s.fail_number && s.fail_number->first == number) status = s.fail_number->second;
  if (const auto found = s.fail_name.find(name); found != s.fail_name.end()) {
    status = found->second;
    s.fail_name.erase(found);
  }
  if (const auto found = s.fail_after.find(name); found != s.fail_after.end() && --found->second.second < 0) {
    status = found->second.first;
  }
  if (status != 0 && s.sticky) s.failing = status;
  return status;
}

template <class Body>
int enter(const char* name, const Body& body) {
  if (fake_cuda_inside != nullptr) fake_cuda_inside(true);
  State& s = state();
  int status = 0;
  {
    const Lock lock(s.mutex);
    status = injected(s, name);
    const bool first =
        std::string(name) == "cuInit" || std::string(name) == "cuDriverGetVersion" || std::string(name) == "cuGetErrorName";
    if (status == 0 && !s.initialised && !first) {
      s.note(std::string(name) + " before cuInit");
      status = kNotInitialized;
    }
    if (status == 0) status = body(s);
    if (s.calls.size() < 1'000'000) s.calls.push_back({name, status, std::this_thread::get_id()});
  }
  if (fake_cuda_inside != nullptr) fake_cuda_inside(false);
  return status;
}

Context* current() {
  const auto& stack = context_stack();
  return stack.empty() ? nullptr : stack.back();
}

int wrong(State& s, const std::string& what, int status) {
  s.note(what);
  return status;
}

// The architecture that a cubin was made for: bits 0 to 7 of an ELF file's flags, or 8 to 15 in the newer layout.
int architecture_of(const void* image) {
  const auto* bytes = static_cast<const unsigned char*>(image);
  if (std::memcmp(bytes,
                  "\x7F"
                  "ELF",
                  4) != 0)
    return 0;
  std::uint32_t flags = 0;
  std::memcpy(&flags, bytes + 48, sizeof flags);
  const int old = static_cast<int>(flags & 0xFFU);
  const int newer = static_cast<int>(flags >> 8U & 0xFFU);
  return bytes[8] >= 8 ? newer : old;
}

std::size_t parameter_bytes(const std::string& name) {
  using namespace scalewatch::device;  // NOLINT(google-build-using-namespace): the ABI's names
  if (name == kMeasureName) return sizeof(MeasureParams);
  if (name == kFinishName) return sizeof(FinishParams);
  if (name == kMeasureOneName) return sizeof(MeasureOneParams);
  if (name == kGatherName) return sizeof(GatherParams);
  if (name == kExponentsName) return sizeof(ExponentsParams);
  return 0;
}

int copy_async(State& s, std::uint64_t to, std::uint64_t from, std::size_t bytes, void* handle, bool upload) {
  Stream* stream = find_stream(handle);
  if (stream == nullptr) return wrong(s, "a copy on a stream that is none", kInvalidHandle);
  const Memory* device = find_memory(upload ? to : from, bytes);
  const Memory* host = find_memory(upload ? from : to, bytes);
  if (device == nullptr || device->pinned) return wrong(s, "a copy of memory that is not the device's", kInvalidValue);
  if (device->device != stream->device) return wrong(s, "a copy of another device's memory", kInvalidValue);
  if (host == nullptr || !host->pinned) return wrong(s, "an asynchronous copy of memory that is not pinned", kInvalidValue);
  // What is uploaded must not change until the copy is done.
  std::string snapshot;
  if (upload) snapshot.assign(reinterpret_cast<const char*>(from), bytes);
  push_work(*stream, [=, &s] {
    if (upload && std::memcmp(reinterpret_cast<const void*>(from), snapshot.data(), bytes) != 0) {
      s.note("memory changed between an asynchronous upload and its execution");
    }
    if (find_memory(to, bytes) == nullptr || find_memory(from, bytes) == nullptr) {
      s.note("a copy of memory that was freed before");
      return;
    }
    std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  });
  return kSuccess;
}

int launch(State& s, void* function, unsigned grid, unsigned block, unsigned shared, void* handle, void** parameters) {
  const Function* known_function = known(s.functions, function);
  if (known_function == nullptr) return wrong(s, "a launch of a function that is none", kInvalidHandle);
  Stream* stream = find_stream(handle);
  if (stream == nullptr) return wrong(s, "a launch on a stream that is none", kInvalidHandle);
  if (current() != known_function->context) return wrong(s, "a launch in another context", kInvalidContext);
  if (stream->device != known_function->context->device) return wrong(s, "a launch on another device's stream", kInvalidHandle);
  if (grid == 0 || block == 0) return wrong(s, "an empty launch", kInvalidValue);
  std::string copy(static_cast<const char*>(parameters[0]), known_function->parameter_bytes);
  push_work(*stream, [=, &s, kernel = known_function->kernel]() mutable {
    void* arguments[] = {copy.data()};
    const simt::Result result = simt::launch(*kernel, {grid, 1, 1}, {block, 1, 1}, shared, arguments);
    if (result.ok()) return;
    s.note(std::string(kernel->name) + ": " + result.fault);
    s.failing = kIllegalAddress;
  });
  return kSuccess;
}

void progress(State& s) {
  if (s.automatic) run_everything();
}

}  // namespace
}  // namespace fake_cuda

using namespace fake_cuda;  // NOLINT(google-build-using-namespace): the driver's functions are global

#define FAKE extern "C" __attribute__((visibility("default"))) int

FAKE cuInit(unsigned /*flags*/) {
  return enter("cuInit", [](State& s) {
    if (s.init_status != 0) return s.init_status;
    if (s.devices.empty()) return kNoDevice;
    s.initialised = true;
    return kSuccess;
  });
}
FAKE cuDriverGetVersion(int* version) {
  return enter("cuDriverGetVersion", [&](State& s) {
    *version = s.version;
    return kSuccess;
  });
}
FAKE cuDeviceGetCount(int* count) {
  return enter("cuDeviceGetCount", [&](State& s) {
    *count = static_cast<int>(s.devices.size());
    return kSuccess;
  });
}
FAKE cuDeviceGet(int* device, int ordinal) {
  return enter("cuDeviceGet", [&](State& s) {
    if (ordinal < 0 || ordinal >= static_cast<int>(s.devices.size())) return kInvalidDevice;
    *device = ordinal;
    return kSuccess;
  });
}
FAKE cuDeviceGetAttribute(int* value, int attribute, int device) {
  return enter("cuDeviceGetAttribute", [&](State& s) {
    if (device < 0 || device >= static_cast<int>(s.devices.size())) return kInvalidDevice;
    const Architecture architecture = s.devices[static_cast<std::size_t>(device)];
    *value = attribute == 75 ? architecture.major : attribute == 76 ? architecture.minor : 2;
    return kSuccess;
  });
}
FAKE cuDevicePrimaryCtxRetain(void** context, int device) {
  return enter("cuDevicePrimaryCtxRetain", [&](State& s) {
    if (device < 0 || device >= static_cast<int>(s.devices.size())) return kInvalidDevice;
    Context* made = s.contexts[static_cast<std::size_t>(device)].get();
    ++made->retained;
    *context = made;
    return kSuccess;
  });
}
FAKE cuDevicePrimaryCtxRelease_v2(int device) {
  return enter("cuDevicePrimaryCtxRelease_v2", [&](State& s) {
    Context& context = *s.contexts[static_cast<std::size_t>(device)];
    if (context.retained == 0) return wrong(s, "a context released too often", kInvalidContext);
    --context.retained;
    return kSuccess;
  });
}
FAKE cuCtxGetCurrent(void** context) {
  return enter("cuCtxGetCurrent", [&](State&) {
    *context = current();
    return kSuccess;
  });
}
FAKE cuCtxSetCurrent(void* context) {
  return enter("cuCtxSetCurrent", [&](State&) {
    auto& stack = context_stack();
    if (!stack.empty()) stack.pop_back();
    if (context != nullptr) stack.push_back(static_cast<Context*>(context));
    return kSuccess;
  });
}
FAKE cuCtxPushCurrent_v2(void* context) {
  return enter("cuCtxPushCurrent_v2", [&](State&) {
    context_stack().push_back(static_cast<Context*>(context));
    return kSuccess;
  });
}
FAKE cuCtxPopCurrent_v2(void** context) {
  return enter("cuCtxPopCurrent_v2", [&](State& s) {
    if (context_stack().empty()) return wrong(s, "no context to pop", kInvalidContext);
    *context = context_stack().back();
    context_stack().pop_back();
    return kSuccess;
  });
}
FAKE cuModuleLoadData(void** module, const void* image) {
  return enter("cuModuleLoadData", [&](State& s) {
    Context* context = current();
    if (context == nullptr || context->retained == 0) return wrong(s, "a module without a context", kInvalidContext);
    const int built_for = architecture_of(image);
    if (built_for == 0) return wrong(s, "a module that is no cubin", kInvalidImage);
    const Architecture runs = s.devices[static_cast<std::size_t>(context->device)];
    if (built_for / 10 != runs.major || built_for % 10 > runs.minor) {
      return wrong(s, "a module for sm_" + std::to_string(built_for), kNoBinaryForGpu);
    }
    *module = adopt(s.modules, Module{context});
    return kSuccess;
  });
}
FAKE cuModuleUnload(void* module) {
  return enter("cuModuleUnload", [&](State& s) {
    std::erase_if(s.functions, [module](const auto& f) { return f->module == module; });
    return discard(s.modules, module) ? kSuccess : wrong(s, "an unknown module unloaded", kInvalidHandle);
  });
}
FAKE cuModuleGetFunction(void** function, void* module, const char* name) {
  return enter("cuModuleGetFunction", [&](State& s) {
    Module* from = known(s.modules, module);
    if (from == nullptr) return wrong(s, "a function of no module", kInvalidHandle);
    const simt::Kernel* kernel = simt::find_kernel(name);
    if (kernel == nullptr) return kNotFound;
    *function = adopt(s.functions, Function{from->context, from, kernel, parameter_bytes(name)});
    return kSuccess;
  });
}
FAKE cuMemAlloc_v2(std::uint64_t* pointer, std::size_t bytes) {
  return enter("cuMemAlloc_v2", [&](State& s) {
    if (current() == nullptr) return wrong(s, "memory without a context", kInvalidContext);
    if (bytes == 0) return kInvalidValue;
    if (s.memory_taken + bytes > s.memory_limit) return kOutOfMemory;
    s.memory_taken += bytes;
    *pointer = add_memory(bytes, false, current()->device);
    return kSuccess;
  });
}
FAKE cuMemFree_v2(std::uint64_t pointer) {
  return enter("cuMemFree_v2", [&](State& s) {
    run_everything();  // as the driver does: it waits
    return remove_memory(pointer) ? kSuccess : wrong(s, "unknown memory freed", kInvalidValue);
  });
}
FAKE cuMemHostAlloc(void** pointer, std::size_t bytes, unsigned /*flags*/) {
  return enter("cuMemHostAlloc", [&](State& s) {
    if (current() == nullptr) return wrong(s, "pinned memory without a context", kInvalidContext);
    *pointer = reinterpret_cast<void*>(add_memory(bytes, true, -1));
    return kSuccess;
  });
}
FAKE cuMemFreeHost(void* pointer) {
  return enter("cuMemFreeHost", [&](State& s) {
    run_everything();
    return remove_memory(reinterpret_cast<std::uint64_t>(pointer)) ? kSuccess : wrong(s, "unknown memory freed", kInvalidValue);
  });
}
FAKE cuMemsetD8Async(std::uint64_t to, unsigned char value, std::size_t bytes, void* handle) {
  return enter("cuMemsetD8Async", [&](State& s) {
    Stream* stream = find_stream(handle);
    if (stream == nullptr) return wrong(s, "a fill on a stream that is none", kInvalidHandle);
    if (find_memory(to, bytes) == nullptr) return wrong(s, "a fill of unknown memory", kInvalidValue);
    push_work(*stream, [=] { std::memset(reinterpret_cast<void*>(to), value, bytes); });
    return kSuccess;
  });
}
FAKE cuMemcpyHtoDAsync_v2(std::uint64_t to, const void* from, std::size_t bytes, void* stream) {
  return enter("cuMemcpyHtoDAsync_v2",
               [&](State& s) { return copy_async(s, to, reinterpret_cast<std::uint64_t>(from), bytes, stream, true); });
}
FAKE cuMemcpyDtoHAsync_v2(void* to, std::uint64_t from, std::size_t bytes, void* stream) {
  return enter("cuMemcpyDtoHAsync_v2",
               [&](State& s) { return copy_async(s, reinterpret_cast<std::uint64_t>(to), from, bytes, stream, false); });
}
FAKE cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                    unsigned block_z, unsigned shared, void* stream, void** parameters, void** /*extra*/) {
  return enter("cuLaunchKernel", [&](State& s) {
    if (grid_y * grid_z * block_y * block_z != 1) return wrong(s, "a launch of more dimensions than one", kInvalidValue);
    return launch(s, function, grid_x, block_x, shared, stream, parameters);
  });
}
FAKE cuEventCreate(void** event, unsigned flags) {
  return enter("cuEventCreate", [&](State& s) {
    if (current() == nullptr) return wrong(s, "an event without a context", kInvalidContext);
    *event = adopt(s.events, Event{current(), (flags & 2U) == 0});
    return kSuccess;
  });
}
FAKE cuEventDestroy_v2(void* event) {
  return enter("cuEventDestroy_v2", [&](State& s) {
    return discard(s.events, event) ? kSuccess : wrong(s, "an unknown event destroyed", kInvalidHandle);
  });
}
FAKE cuEventRecord(void* event, void* handle) {
  return enter("cuEventRecord", [&](State& s) {
    Event* made = known(s.events, event);
    Stream* stream = find_stream(handle);
    if (made == nullptr || stream == nullptr) return wrong(s, "a record of an unknown event or stream", kInvalidHandle);
    if (made->context->device != stream->device) return wrong(s, "an event of another context", kInvalidContext);
    if (stream->capturing) return wrong(s, "an event recorded into a capture", kCaptureUnsupported);
    const std::uint64_t number = ++made->recorded;
    push_work(*stream, [made, number, &s] {
      made->completed = number;
      made->at_ms = s.clock_ms;
    });
    return kSuccess;
  });
}
FAKE cuEventQuery(void* event) {
  return enter("cuEventQuery", [&](State& s) {
    Event* made = known(s.events, event);
    if (made == nullptr) return wrong(s, "a query of an unknown event", kInvalidHandle);
    progress(s);
    if (s.failing != 0) return s.failing;
    return made->completed == made->recorded ? kSuccess : kNotReady;
  });
}
FAKE cuEventElapsedTime(float* ms, void* begin, void* end) {
  return enter("cuEventElapsedTime", [&](State& s) {
    const Event* from = known(s.events, begin);
    const Event* to = known(s.events, end);
    if (from == nullptr || to == nullptr || !from->timed || !to->timed)
      return wrong(s, "no time between these", kInvalidHandle);
    *ms = static_cast<float>(to->at_ms - from->at_ms);
    return kSuccess;
  });
}
FAKE cuStreamIsCapturing(void* handle, int* status) {
  return enter("cuStreamIsCapturing", [&](State& s) {
    const Stream* stream = find_stream(handle);
    if (stream == nullptr) return wrong(s, "an unknown stream asked for capturing", kInvalidHandle);
    *status = stream->capturing ? 1 : 0;
    return kSuccess;
  });
}
FAKE cuThreadExchangeStreamCaptureMode(int* mode) {
  return enter("cuThreadExchangeStreamCaptureMode", [&](State&) {
    thread_local int of_thread = 0;
    std::swap(of_thread, *mode);
    return kSuccess;
  });
}
FAKE cuGetErrorName(int status, const char** name) {
  return enter("cuGetErrorName", [&](State&) {
    switch (status) {
      case kOutOfMemory:
        *name = "CUDA_ERROR_OUT_OF_MEMORY";
        return kSuccess;
      case kNoDevice:
        *name = "CUDA_ERROR_NO_DEVICE";
        return kSuccess;
      case kIllegalAddress:
        *name = "CUDA_ERROR_ILLEGAL_ADDRESS";
        return kSuccess;
      default:
        return kInvalidValue;
    }
  });
}

// ---- what a trainer calls, and a client must not --------------------------------------------------------------------

FAKE cuStreamCreate(void** stream, unsigned /*flags*/) {
  return enter("cuStreamCreate", [&](State& s) {
    Stream made;
    made.device = current() == nullptr ? 0 : current()->device;
    *stream = adopt(s.streams, std::move(made));
    return kSuccess;
  });
}
FAKE cuStreamSynchronize(void* stream) {
  return enter("cuStreamSynchronize", [&](State& s) {
    Stream* found = find_stream(stream);
    if (found == nullptr) return kInvalidHandle;
    run_stream(*found);
    return s.failing;
  });
}
FAKE cuCtxSynchronize() {
  return enter("cuCtxSynchronize", [&](State& s) {
    run_everything();
    return s.failing;
  });
}
FAKE cuMemcpyHtoD_v2(std::uint64_t to, const void* from, std::size_t bytes) {
  return enter("cuMemcpyHtoD_v2", [&](State& s) {
    run_everything();
    if (find_memory(to, bytes) == nullptr) return kInvalidValue;
    std::memcpy(reinterpret_cast<void*>(to), from, bytes);
    return s.failing;
  });
}
FAKE cuMemcpyDtoH_v2(void* to, std::uint64_t from, std::size_t bytes) {
  return enter("cuMemcpyDtoH_v2", [&](State& s) {
    run_everything();
    if (find_memory(from, bytes) == nullptr) return kInvalidValue;
    std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
    return s.failing;
  });
}
FAKE cuDeviceGetName(char* name, int size, int /*device*/) {
  return enter("cuDeviceGetName", [&](State&) {
    std::snprintf(name, static_cast<std::size_t>(size), "a fake GPU");
    return kSuccess;
  });
}
FAKE cuMemcpyDtoDAsync_v2(std::uint64_t to, std::uint64_t from, std::size_t bytes, void* stream) {
  return enter("cuMemcpyDtoDAsync_v2", [&](State& s) {
    Stream* found = find_stream(stream);
    if (found == nullptr || find_memory(to, bytes) == nullptr || find_memory(from, bytes) == nullptr) return kInvalidValue;
    push_work(*found, [=] { std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes); });
    return s.failing;
  });
}
FAKE cuStreamBeginCapture_v2(void* stream, int /*mode*/) {
  return enter("cuStreamBeginCapture_v2", [&](State&) {
    begin_capture(stream);
    return kSuccess;
  });
}
// Graphs are told apart by their number, from 1.
FAKE cuStreamEndCapture(void* stream, void** graph) {
  return enter("cuStreamEndCapture", [&](State&) {
    *graph = reinterpret_cast<void*>(static_cast<std::uintptr_t>(end_capture(stream) + 1));
    return kSuccess;
  });
}
FAKE cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long /*flags*/) {
  return enter("cuGraphInstantiateWithFlags", [&](State&) {
    *executable = graph;
    return kSuccess;
  });
}
FAKE cuGraphLaunch(void* executable, void* stream) {
  return enter("cuGraphLaunch", [&](State&) {
    replay(static_cast<int>(reinterpret_cast<std::uintptr_t>(executable)) - 1, stream);
    return kSuccess;
  });
}
