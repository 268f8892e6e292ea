// The newest samples of a quantity, and what they usually are. Bounded; deterministic; not thread-safe.
#pragma once

#include <algorithm>
#include <cmath>
#include <deque>
#include <vector>

namespace scalewatch::domain {

class Samples {
 public:
  // NaN is no sample.
  void push(double value, std::size_t limit) {
    if (std::isnan(value)) return;
    values_.push_back(value);
    sorted_.insert(std::upper_bound(sorted_.begin(), sorted_.end(), value), value);
    while (values_.size() > limit) {
      sorted_.erase(std::lower_bound(sorted_.begin(), sorted_.end(), values_.front()));
      values_.pop_front();
    }
  }
  void clear() {
    values_.clear();
    sorted_.clear();
  }
  [[nodiscard]] std::size_t size() const { return values_.size(); }
  [[nodiscard]] const std::deque<double>& values() const { return values_; }
  // The upper one of two middle values; 0 without samples.
  [[nodiscard]] double median() const { return sorted_.empty() ? 0 : sorted_[sorted_.size() / 2]; }
  // Median distance from `center`.
  [[nodiscard]] double mad(double center) const {
    if (sorted_.empty()) return 0;
    // Both sides of the center are sorted by distance already: how many of the nearest lie left of it is searched by halves.
    const auto middle = std::lower_bound(sorted_.begin(), sorted_.end(), center);
    const auto on_left = static_cast<std::size_t>(middle - sorted_.begin());
    const std::size_t on_right = sorted_.size() - on_left;
    const std::size_t nearest = sorted_.size() / 2 + 1;
    const auto left = [&](std::size_t i) { return center - sorted_[on_left - 1 - i]; };
    const auto right = [&](std::size_t i) { return sorted_[on_left + i] - center; };
    std::size_t low = nearest > on_right ? nearest - on_right : 0;
    std::size_t high = std::min(nearest, on_left);
    while (low < high) {
      const std::size_t taken = low + (high - low) / 2;
      if (left(taken) < right(nearest - taken - 1)) {
        low = taken + 1;
      } else {
        high = taken;
      }
    }
    return std::max(low > 0 ? left(low - 1) : 0.0, low < nearest ? right(nearest - low - 1) : 0.0);
  }
  template <class A>
  void persist(A& a) {
    a(values_);
    if constexpr (A::kLoading) {
      sorted_.assign(values_.begin(), values_.end());
      std::sort(sorted_.begin(), sorted_.end());
    }
  }

 private:
  std::deque<double> values_;
  std::vector<double> sorted_;  // the same; medians of a sliding window are asked for at every attempt
};

// MAD of Gaussian noise times this is its standard deviation.
constexpr double kSigmaOfMad = 1.4826;

}  // namespace scalewatch::domain
