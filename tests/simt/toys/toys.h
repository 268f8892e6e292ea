// Small kernels, right and wrong ones, that show what the harness does.
#pragma once

#include <cstddef>
#include <span>

#include "tests/simt/harness/simt.h"

namespace simt::toys {

[[nodiscard]] std::span<const Kernel> kernels();

}  // namespace simt::toys
