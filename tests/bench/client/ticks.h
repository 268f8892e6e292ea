// The processor's time stamp counter: what a clock costs would drown what is measured here.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#ifdef __x86_64__
#include <x86intrin.h>
#endif

namespace scalewatch::bench {

inline std::uint64_t ticks() {
#ifdef __x86_64__
  unsigned cpu = 0;
  _mm_lfence();
  const std::uint64_t now = __rdtscp(&cpu);
  _mm_lfence();
  return now;
#else
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

inline double ns_per_tick() {
  static const double ratio = [] {
    const auto begin = std::chrono::steady_clock::now();
    const std::uint64_t first = ticks();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const std::uint64_t last = ticks();
    const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - begin;
    return time.count() / static_cast<double>(last - first);
  }();
  return ratio;
}

// Durations in ticks, read as quantiles in ns, less what reading the counter itself takes.
class Samples {
 public:
  void add(std::uint64_t duration) { durations_.push_back(duration); }
  // Touches the memory too: a page fault while measuring would be a system's time, not the measured one's.
  void reserve(std::size_t count) {
    durations_.resize(count);
    durations_.clear();
  }
  [[nodiscard]] std::size_t size() const { return durations_.size(); }
  [[nodiscard]] double quantile_ns(double quantile) {
    if (durations_.empty()) return 0;
    const auto index = static_cast<std::ptrdiff_t>(quantile * static_cast<double>(durations_.size() - 1));
    std::nth_element(durations_.begin(), durations_.begin() + index, durations_.end());
    const auto duration = static_cast<double>(durations_[static_cast<std::size_t>(index)]);
    return std::max(0.0, duration - static_cast<double>(empty())) * ns_per_tick();
  }

 private:
  static std::uint64_t empty() {
    static const std::uint64_t least = [] {
      std::vector<std::uint64_t> all;
      for (int i = 0; i < 10'000; ++i) {
        const std::uint64_t begin = ticks();
        all.push_back(ticks() - begin);
      }
      std::nth_element(all.begin(), all.begin() + 5000, all.end());
      return all[5000];
    }();
    return least;
  }
  std::vector<std::uint64_t> durations_;
};

}  // namespace scalewatch::bench
