// Scalewatch's kernels, compiled for the harness from their unchanged source.
#pragma once

#include "tests/simt/harness/simt.h"

namespace simt {

// A kernel by its name in cuda/device/abi.h; null: there is none. Thread-safe.
[[nodiscard]] const Kernel* find_kernel(const char* name);

}  // namespace simt

// The same, to be found in a loaded object by its name.
extern "C" const simt::Kernel* simt_find_kernel(const char* name);
