// Ranges of attempts, and where those of several streams overlap. Pure.
#pragma once

#include <cstdint>
#include <vector>

namespace scalewatch::history {

struct Interval {
  std::uint64_t first = 0;
  std::uint64_t last = 0;  // inclusive
};

struct StreamInterval {
  Interval attempts;
  std::int64_t stream = 0;
};

// Where attempts of one stream are those of another too.
std::vector<Interval> overlaps(std::vector<StreamInterval> intervals);
// In order; what overlaps or touches becomes one.
std::vector<Interval> joined(std::vector<Interval> intervals);
// What is left of `whole` without `cuts`, which are joined.
std::vector<Interval> without(const Interval& whole, const std::vector<Interval>& cuts);
// What of `some` is in `others` too; both are joined.
std::vector<Interval> common(const std::vector<Interval>& some, const std::vector<Interval>& others);
// Whether `cuts`, which are joined, have any attempt of `whole`.
bool touches(const Interval& whole, const std::vector<Interval>& cuts);

}  // namespace scalewatch::history
