#include "cuda/device/driver.h"

#include <dlfcn.h>

#include <cstdio>
#include <type_traits>

namespace scalewatch::cuda {
Driver open_driver(const char* name_of_library) noexcept {
  Driver made;
  const auto refuse = [&made](Cause cause, Status status = kSuccess) {
    made.cause = cause;
    made.status = status;
    return made;
  };
  // Never closed: the driver has threads and exit handlers of its own.
  void* library = dlopen(name_of_library, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    std::snprintf(made.detail, sizeof made.detail, "%s", why == nullptr ? name_of_library : why);
    return refuse(Cause::kNoDriver);
  }
  Functions& f = made.functions;
  const auto find = [&](const char* name, auto& function) {
    void* found = dlsym(library, name);
    if (found == nullptr) {
      std::snprintf(made.detail, sizeof made.detail, "%s has no %s", name_of_library, name);
      return false;
    }
    static_assert(sizeof found == sizeof function);
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
    return true;
  };
  // First what even an old driver has, so that it can be told from a broken one.
  if (!find("cuInit", f.init) || !find("cuDriverGetVersion", f.driver_version)) return refuse(Cause::kNoDriver);
  if (const Status status = f.driver_version(&made.version); status != kSuccess) return refuse(Cause::kInitFailed, status);
  if (made.version < kOldestDriver) {
    std::snprintf(made.detail, sizeof made.detail, "the driver is of CUDA %d.%d; 12.0 (driver 525) is the oldest that will do",
                  made.version / 1000, made.version % 1000 / 10);
    return refuse(Cause::kDriverTooOld);
  }
  const bool complete =
      find("cuDeviceGetCount", f.device_count) && find("cuDeviceGet", f.device) &&
      find("cuDeviceGetAttribute", f.device_attribute) && find("cuDevicePrimaryCtxRetain", f.retain_primary_context) &&
      find("cuDevicePrimaryCtxRelease_v2", f.release_primary_context) && find("cuCtxGetCurrent", f.current_context) &&
      find("cuCtxSetCurrent", f.set_current_context) && find("cuCtxPushCurrent_v2", f.push_context) &&
      find("cuCtxPopCurrent_v2", f.pop_context) && find("cuModuleLoadData", f.load_module) &&
      find("cuModuleUnload", f.unload_module) && find("cuModuleGetFunction", f.module_function) &&
      find("cuMemAlloc_v2", f.allocate) && find("cuMemFree_v2", f.free) && find("cuMemHostAlloc", f.allocate_host) &&
      find("cuMemFreeHost", f.free_host) && find("cuMemsetD8Async", f.set_async) &&
      find("cuMemcpyHtoDAsync_v2", f.upload_async) && find("cuMemcpyDtoHAsync_v2", f.download_async) &&
      find("cuLaunchKernel", f.launch) && find("cuEventCreate", f.create_event) && find("cuEventDestroy_v2", f.destroy_event) &&
      find("cuEventRecord", f.record_event) && find("cuEventQuery", f.query_event) &&
      find("cuEventElapsedTime", f.elapsed_ms) && find("cuStreamIsCapturing", f.is_capturing) &&
      find("cuThreadExchangeStreamCaptureMode", f.exchange_capture_mode) && find("cuGetErrorName", f.error_name);
  if (!complete) return refuse(Cause::kNoDriver);
  const Status status = f.init(0);
  if (status == kSuccess) return made;
  describe(f, status, made.detail, sizeof made.detail);
  return refuse(status == kErrorNoDevice ? Cause::kNoDevice : Cause::kInitFailed, status);
}

const char* cause_name(Cause cause) noexcept {
  switch (cause) {
    case Cause::kNone:
      return "none";
    case Cause::kNoDriver:
      return "no_driver";
    case Cause::kDriverTooOld:
      return "driver_too_old";
    case Cause::kInitFailed:
      return "init_failed";
    case Cause::kNoDevice:
      return "no_device";
    case Cause::kUnknownArchitecture:
      return "unknown_architecture";
    case Cause::kOutOfMemory:
      return "out_of_memory";
    case Cause::kContextFailed:
      return "context_failed";
    case Cause::kDriverError:
      return "driver_error";
  }
  return "driver_error";
}

// Errors after which a context is of no more use, as the reference says of each ("leaves the process in an inconsistent
// state").
Cause cause_of(Status status) noexcept {
  switch (status) {
    case kSuccess:
      return Cause::kNone;
    case kErrorOutOfMemory:
      return Cause::kOutOfMemory;
    case kErrorNoDevice:
    case kErrorInvalidDevice:
      return Cause::kNoDevice;
    case kErrorInvalidImage:
    case kErrorNoBinaryForGpu:
      return Cause::kUnknownArchitecture;
    case 214:  // ECC_UNCORRECTABLE
    case 220:  // NVLINK_UNCORRECTABLE
    case 700:  // ILLEGAL_ADDRESS
    case 702:  // LAUNCH_TIMEOUT
    case 709:  // CONTEXT_IS_DESTROYED
    case 710:  // ASSERT
    case 714:  // HARDWARE_STACK_ERROR
    case 715:  // ILLEGAL_INSTRUCTION
    case 716:  // MISALIGNED_ADDRESS
    case 717:  // INVALID_ADDRESS_SPACE
    case 718:  // INVALID_PC
    case 719:  // LAUNCH_FAILED
      return Cause::kContextFailed;
    default:
      return Cause::kDriverError;
  }
}

const Driver& driver() noexcept {
  static const Driver the_driver = open_driver("libcuda.so.1");
  return the_driver;
}

void describe(const Functions& functions, Status status, char* text, std::size_t size) noexcept {
  const char* name = nullptr;
  if (functions.error_name != nullptr && functions.error_name(status, &name) == kSuccess && name != nullptr) {
    std::snprintf(text, size, "%s", name);
  } else {
    std::snprintf(text, size, "error %d", status);
  }
}

}  // namespace scalewatch::cuda
