// CUDA's driver, opened at run time: what this library calls of libcuda.so.1, declared here so that no toolkit is needed.
//
// Source: NVIDIA's CUDA Driver API reference, and compared with cuda.h of CUDA 12.9 (types, enumerators and functions). The
// names with _v2 are those that cuda.h's macros stand for. Functions of CUDA 12.0 (driver 525) and older only.
#pragma once

#include <cstddef>
#include <cstdint>

namespace scalewatch::cuda {

using Status = int;                   // CUresult
using DeviceOrdinal = int;            // CUdevice
using DevicePointer = std::uint64_t;  // CUdeviceptr
struct ContextHandle;                 // CUctx_st, and so on: opaque
struct ModuleHandle;
struct FunctionHandle;
struct StreamHandle;
struct EventHandle;
using Context = ContextHandle*;
using Module = ModuleHandle*;
using Function = FunctionHandle*;
using Stream = StreamHandle*;
using Event = EventHandle*;

// Values of CUresult that this library tells apart.
inline constexpr Status kSuccess = 0;
inline constexpr Status kErrorOutOfMemory = 2;
inline constexpr Status kErrorDeinitialized = 4;  // the process is ending
inline constexpr Status kErrorInvalidDevice = 101;
inline constexpr Status kErrorNoDevice = 100;
inline constexpr Status kErrorInvalidImage = 200;
inline constexpr Status kErrorNoBinaryForGpu = 209;
inline constexpr Status kErrorNotReady = 600;
inline constexpr Status kFirstCaptureError = 900;  // CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
inline constexpr Status kLastCaptureError = 908;   // CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD

// CUdevice_attribute, CUstreamCaptureStatus, CUstreamCaptureMode, flags.
inline constexpr int kAttributeMultiprocessors = 16;
inline constexpr int kAttributeMajor = 75;
inline constexpr int kAttributeMinor = 76;
inline constexpr int kNotCapturing = 0;
inline constexpr int kModeRelaxed = 2;
inline constexpr unsigned kHostPortable = 1;  // CU_MEMHOSTALLOC_PORTABLE
inline constexpr unsigned kEventTimed = 0;    // CU_EVENT_DEFAULT
inline constexpr unsigned kEventUntimed = 2;  // CU_EVENT_DISABLE_TIMING

inline constexpr int kOldestDriver = 12000;  // as cuDriverGetVersion says it: CUDA 12.0, which came with driver 525

struct Functions {
  Status (*init)(unsigned flags);
  Status (*driver_version)(int* version);
  Status (*device_count)(int* count);
  Status (*device)(DeviceOrdinal* device, int ordinal);
  Status (*device_attribute)(int* value, int attribute, DeviceOrdinal device);
  Status (*retain_primary_context)(Context* context, DeviceOrdinal device);
  Status (*release_primary_context)(DeviceOrdinal device);
  Status (*current_context)(Context* context);
  Status (*set_current_context)(Context context);
  Status (*push_context)(Context context);
  Status (*pop_context)(Context* context);
  Status (*load_module)(Module* module, const void* image);
  Status (*unload_module)(Module module);
  Status (*module_function)(Function* function, Module module, const char* name);
  Status (*allocate)(DevicePointer* pointer, std::size_t bytes);
  Status (*free)(DevicePointer pointer);
  Status (*allocate_host)(void** pointer, std::size_t bytes, unsigned flags);
  Status (*free_host)(void* pointer);
  Status (*set_async)(DevicePointer to, unsigned char value, std::size_t bytes, Stream stream);
  Status (*upload_async)(DevicePointer to, const void* from, std::size_t bytes, Stream stream);
  Status (*download_async)(void* to, DevicePointer from, std::size_t bytes, Stream stream);
  Status (*launch)(Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                   unsigned block_z, unsigned shared_bytes, Stream stream, void** parameters, void** extra);
  Status (*create_event)(Event* event, unsigned flags);
  Status (*destroy_event)(Event event);
  Status (*record_event)(Event event, Stream stream);
  Status (*query_event)(Event event);
  Status (*elapsed_ms)(float* ms, Event begin, Event end);
  Status (*is_capturing)(Stream stream, int* status);
  Status (*exchange_capture_mode)(int* mode);
  Status (*error_name)(Status status, const char** name);
};

// Why a device is not measured. numbers equal scalewatch.v1.DeviceFaultCause.
enum class Cause : std::uint8_t {
  kNone = 0,
  kNoDriver = 1,             // libcuda.so.1 is not there, or lacks a function
  kDriverTooOld = 2,         // older than CUDA 12.0
  kInitFailed = 3,           // cuInit refused
  kNoDevice = 4,             // no such device
  kUnknownArchitecture = 5,  // no kernel was compiled for it
  kOutOfMemory = 6,
  kContextFailed = 7,  // a CUDA error of the trainer's that lasts (an illegal address, say)
  kDriverError = 8,    // another error of the driver
};
[[nodiscard]] const char* cause_name(Cause cause) noexcept;  // e.g. "driver_too_old"

// The cause that a failed driver call stands for.
[[nodiscard]] Cause cause_of(Status status) noexcept;

// The driver of this process: opened and initialised by the first call, kept for ever. Any thread.
struct Driver {
  Functions functions{};
  Cause cause = Cause::kNone;  // other than kNone: the functions must not be called
  Status status = kSuccess;    // of the call that failed
  int version = 0;
  char detail[256] = "";  // for people; "" when all is well
};
[[nodiscard]] const Driver& driver() noexcept;

// Opens and initialises the driver under this name, as often as it is called.
[[nodiscard]] Driver open_driver(const char* library) noexcept;

// "CUDA_ERROR_ILLEGAL_ADDRESS"; "error N" for a number that the driver does not know.
void describe(const Functions& functions, Status status, char* text, std::size_t size) noexcept;

}  // namespace scalewatch::cuda
