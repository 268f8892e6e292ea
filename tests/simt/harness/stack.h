// Stacks of fibers. Internal to the harness.
#pragma once

#include <sys/mman.h>

#include <boost/context/fiber.hpp>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

namespace simt {

inline constexpr std::size_t kStackBytes = 64 * 1024;
inline constexpr std::size_t kGuardBytes = 4096;

// A stack with a guard page below it. It outlives its fiber, so that the next one finds it warm.
class Stack {
 public:
  Stack() {
    base_ = static_cast<std::byte*>(
        mmap(nullptr, kStackBytes + kGuardBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (base_ == MAP_FAILED || mprotect(base_, kGuardBytes, PROT_NONE) != 0) {
      std::perror("simt: a fiber's stack");
      std::abort();
    }
  }
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;
  ~Stack() { munmap(base_, kStackBytes + kGuardBytes); }

  [[nodiscard]] boost::context::preallocated whole() const {
    boost::context::stack_context context;
    context.size = kStackBytes;
    context.sp = base_ + kGuardBytes + kStackBytes;
    return {context.sp, context.size, context};
  }

 private:
  std::byte* base_ = nullptr;
};

// Tells Boost.Context that the stack is not its own to free.
struct Keeper {
  static boost::context::stack_context allocate() { return {}; }
  static void deallocate(boost::context::stack_context& /*stack*/) {}
};

}  // namespace simt
