// What callers hand in about GPUs.
#include <cmath>

#include "client_lib/src/arguments.h"
#include "client_lib/src/sized.h"

namespace scalewatch::client {

DevicePlace place_of(const scalewatch_device* on) {
  const scalewatch_device given = sized(on, "on");
  if (given.device < 0 || given.device >= Devices::kMost) refuse("on->device must be 0 to 63");
  return {given.device, static_cast<cuda::Stream>(given.stream)};
}

DeviceMeasuring measuring_of(const scalewatch_device_tensor* how, const void* data, std::uint64_t numel) {
  DeviceMeasuring made;
  if (how == nullptr) return made;
  const scalewatch_device_tensor given = sized(how, "how");
  if (given.target < SCALEWATCH_DTYPE_UNSPECIFIED || given.target > SCALEWATCH_E5M2) refuse("target is no scalewatch_dtype");
  if (!(given.scale >= 0) || std::isinf(given.scale)) refuse("scale must be finite and not negative");
  made.scale = given.scale == 0 ? 1 : given.scale;
  made.scale_address = reinterpret_cast<std::uint64_t>(given.scale_at);
  made.target = static_cast<DType>(given.target);
  made.transient = given.transient != 0;
  if (given.ndim == 0) return made;
  made.strided = true;
  made.view = view_of(data, given.ndim, given.sizes, given.strides);
  std::uint64_t product = 1;
  for (std::size_t i = 0; i < made.view.dims; ++i) {
    if (__builtin_mul_overflow(product, made.view.sizes[i], &product)) refuse("how->sizes are too large");
  }
  if (product != numel) refuse("numel is not the product of how->sizes");
  return made;
}

scalewatch_device_scaler state_of(const scalewatch_device_scaler* state) {
  return sized(state, "state");
}

}  // namespace scalewatch::client
