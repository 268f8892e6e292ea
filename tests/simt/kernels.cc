#include "tests/simt/kernels.h"

#include <cstring>

#include "cuda/device/kernels/scalewatch.cu"
#include "simt/table.h"

namespace scalewatch::device {
namespace {

constexpr simt::Kernel kTable[] = {
    SIMT_KERNEL(scalewatch_measure), SIMT_KERNEL(scalewatch_finish),    SIMT_KERNEL(scalewatch_measure_one),
    SIMT_KERNEL(scalewatch_gather),  SIMT_KERNEL(scalewatch_exponents),
};

}  // namespace
}  // namespace scalewatch::device

const simt::Kernel* simt::find_kernel(const char* name) {
  for (const Kernel& kernel : scalewatch::device::kTable) {
    if (std::strcmp(kernel.name, name) == 0) return &kernel;
  }
  return nullptr;
}

const simt::Kernel* simt_find_kernel(const char* name) {
  return simt::find_kernel(name);
}
