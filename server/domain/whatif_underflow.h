// How much of a tensor is lost at the lower end of a format under another scale, from what was recorded of it. Pure.
//
// A record counts its elements under two magnitudes only (the smallest normal of its format and where that flushes), and knows
// the smallest and the largest. Under any other magnitude the count is known within bounds, for it can only rise with the
// magnitude; a histogram of octaves makes it exact at powers of two. Zeros are no part of it: what was flushed before it was
// measured can't be recovered.
#pragma once

#include <cstddef>
#include <vector>

#include "cuda/record/format.h"

namespace scalewatch::domain {

// One tensor at one attempt. Magnitudes are unscaled, counts are of finite non-zero elements.
struct Spread {
  double elements = 0;   // all of them
  double subnormal = 0;  // under the smallest normal of `target`, flushed ones included
  double flushed = 0;    // that round to zero in `target`
  double absmin = 0;     // the smallest magnitude; > 0 unless there are no elements
  double absmax = 0;     // the largest
  DType target = DType::kUnspecified;
  // Where a histogram was recorded: elements from 2^(first_octave + i) to below 2^(first_octave + i + 1). Empty: none.
  std::vector<double> octaves;
  int first_octave = 0;
};

struct Bounds {
  double low = 0;
  double high = 0;
};

// Elements whose magnitude is below `magnitude` (>= 0).
Bounds elements_below(const Spread& spread, double magnitude);

// Elements, and how many of them are lost.
struct Underflow {
  double elements = 0;
  Bounds subnormal;  // precision is lost, flushed ones included
  Bounds flushed;    // all is lost
};

// What becomes of the tensor when it is multiplied by `scale` (> 0) and held in `format`.
Underflow underflow(const Spread& spread, DType format, double scale);
// Elements that round to a non-finite value when they are held in `format` unscaled.
Bounds elements_over(const Spread& spread, DType format);

Underflow& operator+=(Underflow& into, const Underflow& from);
// Largest share of subnormal elements that the bounds allow, 0 to 1; 0 without elements.
double worst_share(const Underflow& underflow);

// One tensor of one attempt; both are indexes into lists that the caller keeps.
struct Measured {
  std::size_t attempt = 0;
  std::size_t tensor = 0;
  Spread spread;
};

// Sums over attempts, by tensor (`tensors` of them). `scales` is by attempt; attempts beyond its end are left out, as is what
// has no target format.
std::vector<Underflow> underflow_by_tensor(const std::vector<Measured>& measured, const std::vector<double>& scales,
                                           std::size_t tensors);

}  // namespace scalewatch::domain
