#include "server/domain/whatif_underflow.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace scalewatch::domain {

namespace {

// The next magnitude up: "at most x" as "below the next after x".
double above(double magnitude) {
  return std::nextafter(magnitude, std::numeric_limits<double>::infinity());
}

struct Known {
  double magnitude = 0;
  double below = 0;  // elements under it
};

// What the histogram says of elements below `magnitude`; exact at a power of two.
Bounds in_octaves(const Spread& spread, double magnitude) {
  Bounds out;
  for (std::size_t i = 0; i < spread.octaves.size(); ++i) {
    const int octave = spread.first_octave + static_cast<int>(i);
    if (std::ldexp(1.0, octave + 1) <= magnitude) out.low += spread.octaves[i];
    if (std::ldexp(1.0, octave) < magnitude) out.high += spread.octaves[i];
  }
  return out;
}

}  // namespace

Bounds elements_below(const Spread& spread, double magnitude) {
  const auto limits = format_limits(spread.target);
  const std::array<Known, 4> known{{{spread.absmin, 0},
                                    {above(limits.flush.value()), spread.flushed},
                                    {limits.smallest_normal, spread.subnormal},
                                    {above(spread.absmax), spread.elements}}};
  Bounds out{0, spread.elements};
  for (const auto& point : known) {
    if (point.magnitude <= magnitude) out.low = std::max(out.low, point.below);
    if (point.magnitude >= magnitude) out.high = std::min(out.high, point.below);
  }
  if (!spread.octaves.empty()) {
    const Bounds counted = in_octaves(spread, magnitude);
    out.low = std::max(out.low, counted.low);
    out.high = std::min(out.high, counted.high);
  }
  // At least the smallest one lies below, or the largest one does not.
  if (spread.elements >= 1 && spread.absmin < magnitude) out.low = std::max(out.low, 1.0);
  if (spread.elements >= 1 && spread.absmax >= magnitude) out.high = std::min(out.high, spread.elements - 1);
  // Counts of several ranks or micro-batches may be a little apart from their extremes; bounds never cross.
  out.high = std::max(out.low, out.high);
  return out;
}

Underflow underflow(const Spread& spread, DType format, double scale) {
  const auto limits = format_limits(format);
  return {spread.elements, elements_below(spread, limits.smallest_normal / scale),
          elements_below(spread, above(limits.flush.value() / scale))};
}

Bounds elements_over(const Spread& spread, DType format) {
  const auto limits = format_limits(format);
  const double first = limits.over_is_strict ? above(limits.over.value()) : limits.over.value();
  const auto below = elements_below(spread, first);
  return {spread.elements - below.high, spread.elements - below.low};
}

Underflow& operator+=(Underflow& into, const Underflow& from) {
  into.elements += from.elements;
  into.subnormal.low += from.subnormal.low;
  into.subnormal.high += from.subnormal.high;
  into.flushed.low += from.flushed.low;
  into.flushed.high += from.flushed.high;
  return into;
}

double worst_share(const Underflow& underflow) {
  return underflow.elements > 0 ? underflow.subnormal.high / underflow.elements : 0;
}

std::vector<Underflow> underflow_by_tensor(const std::vector<Measured>& measured, const std::vector<double>& scales,
                                           std::size_t tensors) {
  std::vector<Underflow> out(tensors);
  for (const auto& one : measured) {
    if (one.attempt >= scales.size() || one.tensor >= tensors || one.spread.target == DType::kUnspecified) continue;
    out[one.tensor] += underflow(one.spread, one.spread.target, scales[one.attempt]);
  }
  return out;
}

}  // namespace scalewatch::domain
