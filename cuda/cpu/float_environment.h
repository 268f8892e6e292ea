// Keeps a trainer's floating-point modes away from the kernel, and the kernel's exceptions away from the trainer.
#pragma once

#include <cstdint>

namespace scalewatch::cpu {

// For its lifetime on this thread: round to nearest, subnormals kept, no exception trapped. Then everything is as before,
// sticky flags included. Work between must sit in functions that the compiler can't inline, or it may move out.
class DefaultFloatEnvironment {
 public:
  DefaultFloatEnvironment() noexcept {
#if defined(__x86_64__)
    asm volatile("stmxcsr %0" : "=m"(saved_)::"memory");
    const std::uint32_t standard = 0x1F80;  // all exceptions masked, nearest, no FTZ, no DAZ
    asm volatile("ldmxcsr %0" ::"m"(standard) : "memory");
#elif defined(__aarch64__)
    asm volatile("mrs %0, fpcr" : "=r"(saved_)::"memory");
    asm volatile("mrs %0, fpsr" : "=r"(saved_flags_)::"memory");
    asm volatile("msr fpcr, %0" ::"r"(std::uint64_t{0}) : "memory");
#else
#error "Say here how this processor's floating-point modes are saved and set"
#endif
  }
  ~DefaultFloatEnvironment() {
#if defined(__x86_64__)
    asm volatile("ldmxcsr %0" ::"m"(saved_) : "memory");
#elif defined(__aarch64__)
    asm volatile("msr fpsr, %0" ::"r"(saved_flags_) : "memory");
    asm volatile("msr fpcr, %0" ::"r"(saved_) : "memory");
#endif
  }
  DefaultFloatEnvironment(const DefaultFloatEnvironment&) = delete;
  DefaultFloatEnvironment& operator=(const DefaultFloatEnvironment&) = delete;

 private:
#if defined(__x86_64__)
  std::uint32_t saved_ = 0;
#elif defined(__aarch64__)
  std::uint64_t saved_ = 0;
  std::uint64_t saved_flags_ = 0;
#endif
};

}  // namespace scalewatch::cpu
