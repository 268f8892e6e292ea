// The newest samples of a quantity, and what they usually are. Bounded; deterministic; not thread-safe.
#pragma once

#include <algorithm>
#include <cmath>
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
    in_order_ = keep && ring_.size() <= limit;
    if (ring_.size() != limit) resize(limit);
    const bool full = ring_.size() == limit;
    if (in_order_) insert(value, full ? &ring_[oldest_] : nullptr);
    if (!full) {
      ring_.push_back(value);
      return;
    }
    ring_[oldest_] = value;
    if (++oldest_ == limit) oldest_ = 0;
  }
  void clear() {
    ring_.clear();
    oldest_ = 0;
    sorted_.clear();
    in_order_ = true;
  }
  [[nodiscard]] std::size_t size() const { return ring_.size(); }
  // All of them, in any order.
  [[nodiscard]] const std::vector<double>& values() const { return ring_; }
  // Only with size() > 0.
  [[nodiscard]] double newest() const { return oldest_ > 0 ? ring_[oldest_ - 1] : ring_.back(); }
  // The upper one of two middle values; 0 without samples.
  [[nodiscard]] double median() const { return ring_.empty() ? 0 : sorted()[ring_.size() / 2]; }
  // Median distance from `center`.
  [[nodiscard]] double mad(double center) const {
    if (ring_.empty()) return 0;
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
    straighten();
    a(ring_);
    if constexpr (A::kLoading) in_order_ = looked_ = false;
  }

 private:
  void straighten() {
    std::rotate(ring_.begin(), ring_.begin() + static_cast<std::ptrdiff_t>(oldest_), ring_.end());
    oldest_ = 0;
  }
  // Before it grows, or has more than it may.
  void resize(std::size_t limit) {
    straighten();
    if (ring_.size() > limit) ring_.erase(ring_.begin(), ring_.end() - static_cast<std::ptrdiff_t>(limit));
  }
  [[nodiscard]] const std::vector<double>& sorted() const {
    looked_ = true;
    if (in_order_) return sorted_;
    sorted_ = ring_;
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
    const double* base = sorted_.data();
    std::size_t left = sorted_.size();
    // Three looks at once: each waits for memory and for the comparison.
    while (left > 4) {
      const std::size_t quarter = left / 4;
      const auto is = [&](std::size_t i) { return static_cast<std::size_t>(before(base[i * quarter - 1])); };
      base += quarter * (is(1) + is(2) + is(3));
      left -= 3 * quarter;
    }
    auto count = static_cast<std::size_t>(base - sorted_.data());
    for (std::size_t i = 0; i < left; ++i) count += static_cast<std::size_t>(before(base[i]));
    return count;
  }
  [[nodiscard]] std::size_t below(double value) const {
    return count_before([value](double one) { return one < value; });
  }
  [[nodiscard]] std::size_t up_to(double value) const {
    return count_before([value](double one) { return one <= value; });
  }

  static constexpr std::size_t kFew = 32;

  std::vector<double> ring_;  // once it is full a new one takes the place of the oldest
  std::size_t oldest_ = 0;    // its place; 0 until then
  // The same, for those who ask for the median; valid while in_order_.
  mutable std::vector<double> sorted_;
  mutable bool in_order_ = true;
  mutable bool looked_ = false;  // since the newest sample
};

// MAD of Gaussian noise times this is its standard deviation.
constexpr double kSigmaOfMad = 1.4826;

}  // namespace scalewatch::domain
