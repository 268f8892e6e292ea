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
    // Outwards from the center, the nearer neighbour first.
    auto right = std::lower_bound(sorted_.begin(), sorted_.end(), center);
    auto left = right;
    double distance = 0;
    for (std::size_t taken = 0; taken < sorted_.size() && taken <= sorted_.size() / 2; ++taken) {
      const bool take_left = right == sorted_.end() || (left != sorted_.begin() && center - *(left - 1) < *right - center);
      distance = take_left ? center - *--left : *right++ - center;
    }
    return distance;
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
