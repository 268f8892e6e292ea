#include "cuda/device/device.h"

#include <cstdio>

#include "cuda/device/abi.h"
#include "cuda/device/cubins.h"

namespace scalewatch::cuda {
namespace {

// Machine code runs on its own major architecture, from its minor one on.
const device::Cubin* cubin_for(int major, int minor) noexcept {
  const device::Cubin* best = nullptr;
  for (const device::Cubin& cubin : device::cubins()) {
    if (cubin.major != major || cubin.minor > minor) continue;
    if (best == nullptr || cubin.minor > best->minor) best = &cubin;
  }
  return best;
}

}  // namespace

Device::Device(const Driver& driver, int ordinal) noexcept : opened_(driver), functions_(driver.functions), ordinal_(ordinal) {
  if (driver.cause == Cause::kNone) {
    load();
  } else {
    fail(driver.cause, driver.status);
  }
}

void Device::load() noexcept {
  const Functions& f = functions_;
  int count = 0;
  if (!call(f.device_count, &count)) return;
  if (ordinal_ < 0 || ordinal_ >= count) return fail(Cause::kNoDevice, kErrorInvalidDevice);
  int processors = 0;
  int major = 0;
  int minor = 0;
  if (!call(f.device, &device_, ordinal_) || !call(f.device_attribute, &processors, kAttributeMultiprocessors, device_) ||
      !call(f.device_attribute, &major, kAttributeMajor, device_) ||
      !call(f.device_attribute, &minor, kAttributeMinor, device_)) {
    return;
  }
  if (processors > 0) processors_ = static_cast<std::uint32_t>(processors);
  architecture_ = major * 10 + minor;
  const device::Cubin* cubin = cubin_for(major, minor);
  if (cubin == nullptr) return fail(Cause::kUnknownArchitecture, kErrorNoBinaryForGpu);
  const RelaxedCapture relaxed(*this);
  if (quiet()) return;
  Context context = nullptr;
  if (!call(f.retain_primary_context, &context, device_)) return;
  context_ = context;
  const Current current(*this);
  if (!current || !call(f.load_module, &module_, static_cast<const void*>(cubin->data))) return;
  static_cast<void>(call(f.module_function, &measure_, module_, device::kMeasureName) &&
                    call(f.module_function, &finish_, module_, device::kFinishName) &&
                    call(f.module_function, &measure_one_, module_, device::kMeasureOneName) &&
                    call(f.module_function, &gather_, module_, device::kGatherName) &&
                    call(f.module_function, &exponents_, module_, device::kExponentsName));
}

Device::~Device() {
  if (context_ == nullptr || left_) return;
  // A context that failed, or a driver that is gone with the process, refuses; there is nothing to be done about it.
  if (module_ != nullptr && functions_.push_context(context_) == kSuccess) {
    functions_.unload_module(module_);
    Context popped = nullptr;
    functions_.pop_context(&popped);
  }
  functions_.release_primary_context(device_);
}

Device::Current::Current(Device& device) noexcept : device_(device) {
  const Functions& f = device.driver();
  Context current = nullptr;
  if (device.context_ == nullptr || device.quiet() || !device.call(f.current_context, &current)) return;
  if (current != device.context_) pushed_ = device.call(f.push_context, device.context_);
  ok_ = pushed_ || current == device.context_;
}

Device::Current::~Current() {
  Context popped = nullptr;
  if (pushed_) device_.call(device_.driver().pop_context, &popped);
}

bool Device::check(Status status) noexcept {
  if (status == kSuccess) return true;
  if (status < kFirstCaptureError || status > kLastCaptureError) fail(cause_of(status), status);
  return false;
}

// The first one counts.
void Device::fail(Cause cause, Status status) noexcept {
  if (failing_.exchange(true)) return;
  status_ = status;
  cause_.store(cause, std::memory_order_release);
}

// In relaxed mode: otherwise asking for an event would break the capture of a stream that goes on in another thread.
void Device::enter_poll() noexcept {
  if (context_ == nullptr) return;
  thread_local bool relaxed = false;
  if (!relaxed) {
    int mode = kModeRelaxed;
    relaxed = poll(functions_.exchange_capture_mode, &mode) == kSuccess;
  }
  if (poll(functions_.set_current_context, context_) != kSuccess) return;  // the query that follows says why
}

void Device::describe_fault(char* text, std::size_t size) const noexcept {
  char name[64] = "";
  if (opened_.cause == Cause::kNone || opened_.detail[0] == '\0') {
    describe(functions_, status_, name, sizeof name);
  }
  const char* detail = opened_.cause != Cause::kNone && opened_.detail[0] != '\0' ? opened_.detail : name;
  switch (cause()) {
    case Cause::kUnknownArchitecture:
      std::snprintf(text, size, "%s: no kernels for compute capability %d.%d (%s)", cause_name(cause()), architecture_ / 10,
                    architecture_ % 10, detail);
      break;
    default:
      std::snprintf(text, size, "%s: %s", cause_name(cause()), detail);
  }
}

}  // namespace scalewatch::cuda
