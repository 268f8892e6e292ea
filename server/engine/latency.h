// How long something took, counted in buckets. A plain value: whoever owns one guards it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace scalewatch::engine {

struct LatencyHistogram {
  // Upper bounds of the buckets, seconds, inclusive; beyond the last one lies one more. Chosen for commits, which are held
  // against their delay of 50 ms and the promise that an alert leaves within 1 s, and for queries that a person waits for.
  static constexpr std::array<double, 12> kBounds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10};

  std::array<std::uint64_t, kBounds.size() + 1> counts{};  // of each bucket alone
  double sum = 0;                                          // seconds

  void note(double seconds) {
    const auto bucket = std::lower_bound(kBounds.begin(), kBounds.end(), seconds) - kBounds.begin();
    ++counts.at(static_cast<std::size_t>(bucket));
    sum += seconds;
  }
};

}  // namespace scalewatch::engine
