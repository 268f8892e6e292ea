#include "server/history/intervals.h"

#include <algorithm>

namespace scalewatch::history {

std::vector<Interval> overlaps(std::vector<StreamInterval> intervals) {
  std::sort(intervals.begin(), intervals.end(),
            [](const auto& a, const auto& b) { return a.attempts.first < b.attempts.first; });
  std::vector<Interval> found;
  // What reaches farthest so far, and what reaches farthest of the other streams.
  StreamInterval far{{1, 0}, -1};
  StreamInterval other{{1, 0}, -1};
  for (const auto& now : intervals) {
    for (const auto& before : {far, other}) {
      if (before.stream < 0 || before.stream == now.stream || before.attempts.last < now.attempts.first) continue;
      found.push_back({now.attempts.first, std::min(before.attempts.last, now.attempts.last)});
    }
    if (now.stream == far.stream) {
      if (now.attempts.last > far.attempts.last) far = now;
    } else if (far.stream < 0 || now.attempts.last >= far.attempts.last) {
      other = far;
      far = now;
    } else if (other.stream < 0 || now.attempts.last > other.attempts.last) {
      other = now;
    }
  }
  return found;
}

std::vector<Interval> joined(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Interval> out;
  for (const auto& interval : intervals) {
    if (!out.empty() && interval.first <= out.back().last + 1) {
      out.back().last = std::max(out.back().last, interval.last);
    } else {
      out.push_back(interval);
    }
  }
  return out;
}

namespace {

// The first of `cuts` that ends at an attempt or after it.
auto first_reaching(const std::vector<Interval>& cuts, std::uint64_t attempt) {
  return std::lower_bound(cuts.begin(), cuts.end(), attempt,
                          [](const Interval& interval, std::uint64_t from) { return interval.last < from; });
}

}  // namespace

bool touches(const Interval& whole, const std::vector<Interval>& cuts) {
  const auto cut = first_reaching(cuts, whole.first);
  return cut != cuts.end() && cut->first <= whole.last;
}

std::vector<Interval> without(const Interval& whole, const std::vector<Interval>& cuts) {
  std::vector<Interval> left;
  std::uint64_t from = whole.first;
  auto cut = first_reaching(cuts, from);
  for (; cut != cuts.end() && cut->first <= whole.last; ++cut) {
    if (cut->first > from) left.push_back({from, cut->first - 1});
    from = cut->last + 1;
  }
  if (from <= whole.last) left.push_back({from, whole.last});
  return left;
}

std::vector<Interval> common(const std::vector<Interval>& some, const std::vector<Interval>& others) {
  std::vector<Interval> found;
  for (const Interval& one : some) {
    for (const Interval& part : without(one, without(one, others))) found.push_back(part);
  }
  return found;
}

}  // namespace scalewatch::history
