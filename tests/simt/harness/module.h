// Where the `__shared__` variables of a kernel's object lie. Internal to the harness.
#pragma once

#include <cstddef>

#include "tests/simt/harness/simt.h"

namespace simt {

struct SharedStorage {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
};

// The calling OS thread's instance of the thread-local variables of the object that holds the kernel.
[[nodiscard]] SharedStorage shared_storage_of(const Kernel& kernel);

}  // namespace simt
