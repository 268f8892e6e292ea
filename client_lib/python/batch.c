// Many tensors in one call: what the Python package adds to the C ABI, so that Python pays once a moment and not once a tensor.
//
// Threads, errors and costs are those of the functions of scalewatch.h that are called; the first status other than
// SCALEWATCH_OK is returned, after all tensors were tried.
#include <stddef.h>
#include <stdint.h>

#include "scalewatch/scalewatch.h"

// scalewatch_observe of `count` contiguous tensors in host memory. data[i]: address of the elements; NULL leaves tensor i out.
SCALEWATCH_API int scalewatch_python_observe(scalewatch_monitor* monitor, size_t count, const uint32_t* tensors,
                                             const void* const* data, const uint64_t* numel, double scale) {
  int first = SCALEWATCH_OK;
  for (size_t i = 0; i < count; ++i) {
    if (data[i] == NULL) continue;
    const int status = scalewatch_observe(monitor, tensors[i], data[i], numel[i], scale, SCALEWATCH_DTYPE_UNSPECIFIED);
    if (first == SCALEWATCH_OK) first = status;
  }
  return first;
}

// The same for tensors on a GPU: scalewatch_observe_device.
SCALEWATCH_API int scalewatch_python_observe_device(scalewatch_monitor* monitor, size_t count, const uint32_t* tensors,
                                                    const void* const* data, const uint64_t* numel, const scalewatch_device* on,
                                                    const scalewatch_device_tensor* how) {
  int first = SCALEWATCH_OK;
  for (size_t i = 0; i < count; ++i) {
    if (data[i] == NULL) continue;
    const int status = scalewatch_observe_device(monitor, tensors[i], data[i], numel[i], on, how);
    if (first == SCALEWATCH_OK) first = status;
  }
  return first;
}

// *wanted = 1 when the open attempt is to measure at least one of the tensors, else 0.
SCALEWATCH_API int scalewatch_python_wants_any(scalewatch_monitor* monitor, size_t count, const uint32_t* tensors,
                                               int* wanted) {
  *wanted = 0;
  for (size_t i = 0; i < count && *wanted == 0; ++i) {
    const int status = scalewatch_wants(monitor, tensors[i], wanted);
    if (status != SCALEWATCH_OK) return status;
  }
  return SCALEWATCH_OK;
}
