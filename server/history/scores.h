// By what tensors are ranked. Pure.
#pragma once

#include <optional>

#include "scalewatch/v1/history.pb.h"
#include "server/history/chunk.h"

namespace scalewatch::history {

using By = v1::TopTensorsRequest;

// What scores are made of.
Need need_of(By::By by);

// Of one record: larger leads, so headroom is negated. Absent: the tensor does not take part.
std::optional<double> score(By::By by, const Measured& measured);
// Norm and underflow are rounded up to floats, as summaries hold them, so that equal ones are found equal in both.
// At least the largest score of the records taken together; of non-finite elements their sum. Equal to the largest but for
// absmax under several scales, which is within rounding.
std::optional<double> score_bound(By::By by, const TensorSummary& summary);
// Scores of attempts are added rather than compared.
inline bool adds(By::By by) {
  return by == By::BY_NON_FINITE;
}
// As it is told: headroom the right way round.
inline double told(By::By by, double value) {
  return by == By::BY_HEADROOM || by == By::BY_UNSPECIFIED ? -value : value;
}

}  // namespace scalewatch::history
