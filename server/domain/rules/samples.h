// The newest samples of a quantity, and what they usually are. Bounded; deterministic; not thread-safe.
#pragma once

#include <algorithm>
#include <cmath>
#include <deque>
#include <utility>
#include <vector>

namespace scalewatch::domain {

class Samples {
 public:
  // NaN is no sample.
  void push(double value, std::size_t limit) {
    if (std::isnan(value) || limit == 0) return;
    // Order is kept where it is cheap, and for those who look at every sample. Who looks now and then has it made anew.
    const bool keep = std::exchange(looked_, false) || (in_order_ && limit <= kFew);
    in_order_ = keep && values_.size() <= limit;
    if (in_order_) insert(value, values_.size() == limit ? &values_.front() : nullptr);
    values_.push_back(value);
    while (values_.size() > limit) values_.pop_front();
  }
  void clear() {
    values_.clear();
    sorted_.clear();
    in_order_ = true;
  }
  [[nodiscard]] std::size_t size() const { return values_.size(); }
  [[nodiscard]] const std::deque<double>& values() const { return values_; }
  // The upper one of two middle values; 0 without samples.
  [[nodiscard]] double median() const { return values_.empty() ? 0 : sorted()[values_.size() / 2]; }
  // Median distance from `center`.
  [[nodiscard]] double mad(double center) const {
    if (values_.empty()) return 0;
    const std::vector<double>& all = sorted();
    // Both sides of the center are sorted by distance already: how many of the nearest lie left of it is searched by halves.
    const std::size_t on_left = below(center);
    const std::size_t on_right = all.size() - on_left;
    const std::size_t nearest = all.size() / 2 + 1;
    const auto left = [&](std::size_t i) { return center - all[on_left - 1 - i]; };
    const auto right = [&](std::size_t i) { return all[on_left + i] - center; };
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
    if constexpr (A::kLoading) in_order_ = looked_ = false;
  }

 private:
  [[nodiscard]] const std::vector<double>& sorted() const {
    looked_ = true;
    if (in_order_) return sorted_;
    sorted_.assign(values_.begin(), values_.end());
    std::sort(sorted_.begin(), sorted_.end());
    in_order_ = true;
    return sorted_;
  }
  // Puts a value in order, in place of the oldest where that leaves: what lies between the two moves by one.
  void insert(double value, const double* oldest) {
    const std::size_t in = up_to(value);
    if (oldest == nullptr) {
      sorted_.insert(sorted_.begin() + static_cast<std::ptrdiff_t>(in), value);
      return;
    }
    const std::size_t out = below(*oldest);
    double* const all = sorted_.data();
    if (in <= out) {
      std::copy_backward(all + in, all + out, all + out + 1);
      all[in] = value;
    } else {
      std::copy(all + out + 1, all + in, all + out);
      all[in - 1] = value;
    }
  }
  // How many come before the first for which `before` is false; without a branch, for what is new goes anywhere.
  template <class Before>
  [[nodiscard]] std::size_t count_before(Before before) const {
    if (sorted_.empty()) return 0;
    const double* base = sorted_.data();
    for (std::size_t left = sorted_.size(); left > 1;) {
      const std::size_t half = left / 2;
      base += half & (std::size_t{0} - static_cast<std::size_t>(before(base[half - 1])));
      left -= half;
    }
    return static_cast<std::size_t>(base - sorted_.data()) + (before(*base) ? 1 : 0);
  }
  [[nodiscard]] std::size_t below(double value) const {
    return count_before([value](double one) { return one < value; });
  }
  [[nodiscard]] std::size_t up_to(double value) const {
    return count_before([value](double one) { return one <= value; });
  }

  static constexpr std::size_t kFew = 32;

  std::deque<double> values_;
  // The same, for those who ask for the median; valid while in_order_.
  mutable std::vector<double> sorted_;
  mutable bool in_order_ = true;
  mutable bool looked_ = false;  // since the newest sample
};

// MAD of Gaussian noise times this is its standard deviation.
constexpr double kSigmaOfMad = 1.4826;

}  // namespace scalewatch::domain
