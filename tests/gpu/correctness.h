// The kernels on a GPU against the CPU kernel.
#pragma once

#include "tests/gpu/gpu.h"

namespace scalewatch::gpu {

// Compares records of every type, size, alignment and kind of value; says what differs. small: sizes that a sanitizer or the
// SIMT harness has done in a minute. Number of differences.
int check_correctness(Gpu& gpu, bool small);

}  // namespace scalewatch::gpu
