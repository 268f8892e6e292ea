#include "tests/gpu/gpu.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace scalewatch::gpu {
namespace {

using cuda::Status;

const cuda::Functions& functions() {
  return cuda::driver().functions;
}

void check(Status status, const char* what) {
  if (status == cuda::kSuccess) return;
  char name[64] = "";
  cuda::describe(functions(), status, name, sizeof name);
  std::fprintf(stderr, "%s failed: %s\n", what, name);
  std::exit(1);
}

// A function that the client library has no use for.
template <class... Arguments>
void call(const char* name, Arguments... arguments) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  auto* function = reinterpret_cast<Status (*)(Arguments...)>(dlsym(library, name));
  if (function == nullptr) {
    std::fprintf(stderr, "the driver has no %s\n", name);
    std::exit(1);
  }
  check(function(arguments...), name);
}

[[noreturn]] void no_gpu(const char* cause, const char* detail) {
  std::fprintf(stderr, "no GPU to work with: %s: %s\n", cause, detail);
  std::exit(kNoGpu);
}

}  // namespace

Gpu::Gpu() {
  const cuda::Driver& driver = cuda::driver();
  if (driver.cause != cuda::Cause::kNone) no_gpu(cuda::cause_name(driver.cause), driver.detail);
  int count = 0;
  check(functions().device_count(&count), "cuDeviceGetCount");
  if (count == 0) no_gpu("no_device", "the driver knows of none");
  cuda::DeviceOrdinal device = 0;
  check(functions().device(&device, 0), "cuDeviceGet");
  call("cuDeviceGetName", name_, static_cast<int>(sizeof name_), device);
  cuda::Context context = nullptr;
  check(functions().retain_primary_context(&context, device), "cuDevicePrimaryCtxRetain");
  check(functions().set_current_context(context), "cuCtxSetCurrent");
  call("cuStreamCreate", &stream_, 1U);  // CU_STREAM_NON_BLOCKING
  check(functions().create_event(&begin_, cuda::kEventTimed), "cuEventCreate");
  check(functions().create_event(&end_, cuda::kEventTimed), "cuEventCreate");
}

std::uint64_t Gpu::allocate(std::size_t bytes) {
  std::uint64_t made = 0;
  check(functions().allocate(&made, bytes), "cuMemAlloc");
  return made;
}

void Gpu::free(std::uint64_t address) {
  check(functions().free(address), "cuMemFree");
}

void Gpu::upload(std::uint64_t to, const void* from, std::size_t bytes) {
  if (bytes != 0) call("cuMemcpyHtoD_v2", to, from, bytes);
}

void Gpu::download(void* to, std::uint64_t from, std::size_t bytes) {
  if (bytes != 0) call("cuMemcpyDtoH_v2", to, from, bytes);
}

void Gpu::copy(std::uint64_t to, std::uint64_t from, std::size_t bytes) {
  call("cuMemcpyDtoDAsync_v2", to, from, bytes, stream_);
}

void Gpu::wait() {
  call("cuStreamSynchronize", stream_);
}

void Gpu::begin() {
  check(functions().record_event(begin_, stream_), "cuEventRecord");
}

double Gpu::end_us() {
  check(functions().record_event(end_, stream_), "cuEventRecord");
  wait();
  float ms = 0;
  check(functions().elapsed_ms(&ms, begin_, end_), "cuEventElapsedTime");
  return static_cast<double>(ms) * 1000;
}

double Gpu::median(std::vector<double>& values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void Gpu::begin_capture() {
  call("cuStreamBeginCapture_v2", stream_, 0);  // CU_STREAM_CAPTURE_MODE_GLOBAL, the strictest
}

void* Gpu::end_capture() {
  void* graph = nullptr;
  void* executable = nullptr;
  call("cuStreamEndCapture", stream_, &graph);
  call("cuGraphInstantiateWithFlags", &executable, graph, 0ULL);
  return executable;
}

void Gpu::replay(void* graph) {
  call("cuGraphLaunch", graph, stream_);
}

}  // namespace scalewatch::gpu
