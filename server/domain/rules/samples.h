// The newest samples of a quantity, and what they usually are. Bounded; deterministic; not thread-safe.
#pragma once

#include <algorithm>
#include <cmath>
#include <deque>
#include <vector>

namespace scalewatch::domain {

class Samples {
 public:
  void push(double value, std::size_t limit) {
    values_.push_back(value);
    while (values_.size() > limit) values_.pop_front();
  }
  void clear() { values_.clear(); }
  [[nodiscard]] std::size_t size() const { return values_.size(); }
  [[nodiscard]] const std::deque<double>& values() const { return values_; }
  // The upper one of two middle values; 0 without samples.
  [[nodiscard]] double median() const { return middle({values_.begin(), values_.end()}); }
  // Median distance from `center`.
  [[nodiscard]] double mad(double center) const {
    std::vector<double> distances;
    distances.reserve(values_.size());
    for (const double value : values_) distances.push_back(std::abs(value - center));
    return middle(std::move(distances));
  }
  template <class A>
  void persist(A& a) {
    a(values_);
  }

 private:
  static double middle(std::vector<double> values) {
    if (values.empty()) return 0;
    const auto half = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), half, values.end());
    return *half;
  }

  std::deque<double> values_;
};

// MAD of Gaussian noise times this is its standard deviation.
constexpr double kSigmaOfMad = 1.4826;

}  // namespace scalewatch::domain
