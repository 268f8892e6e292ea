// A rate with some room for bursts. Thread-safe; time is given, in milliseconds of a steady clock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>

namespace scalewatch::auth {

class Bucket {
 public:
  // `rate`: a second, 0 = no limit; `burst`: what may be taken at once after a rest.
  void limit(double rate, double burst) {
    const std::lock_guard lock(mutex_);
    if (rate == rate_ && burst == burst_) return;
    if (rate_ == 0) level_ = burst;  // full when it begins to count
    rate_ = rate;
    burst_ = burst;
  }

  // Takes so much, also what is not there. Returns how long the taker should wait for the debt to be gone; 0 = go on.
  std::int64_t take(double amount, std::int64_t now_ms) {
    const std::lock_guard lock(mutex_);
    if (rate_ == 0) return 0;
    fill(now_ms);
    level_ -= amount;
    return wait();
  }
  std::int64_t debt(std::int64_t now_ms) {
    const std::lock_guard lock(mutex_);
    if (rate_ == 0) return 0;
    fill(now_ms);
    return wait();
  }

 private:
  void fill(std::int64_t now_ms) {
    if (filled_ms_ != 0) level_ = std::min(burst_, level_ + rate_ * static_cast<double>(now_ms - filled_ms_) / 1000);
    level_ = std::min(level_, burst_);
    filled_ms_ = now_ms;
  }
  [[nodiscard]] std::int64_t wait() const { return level_ >= 0 ? 0 : static_cast<std::int64_t>(-level_ / rate_ * 1000) + 1; }

  std::mutex mutex_;
  double rate_ = 0;
  double burst_ = 0;
  double level_ = 0;
  std::int64_t filled_ms_ = 0;
};

}  // namespace scalewatch::auth
