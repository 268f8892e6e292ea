// How fast the kernels are on a GPU.
#pragma once

#include "tests/gpu/gpu.h"

namespace scalewatch::gpu {

// Prints one line of tab-separated fields a row: name, measured, unit, goal (empty: none), what it means.
void print_benchmarks(Gpu& gpu);

}  // namespace scalewatch::gpu
