// Turns the kernel's running state into a record. Internal to cuda/cpu.
#pragma once

#include "cuda/cpu/kernel.h"
#include "cuda/record/record.h"

namespace scalewatch::cpu {

// The caller has set the default floating-point environment.
[[nodiscard]] Record finish(const State& state, DType dtype) noexcept;

}  // namespace scalewatch::cpu
