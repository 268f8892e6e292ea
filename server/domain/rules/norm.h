// The gradient norm and the loss of an attempt, as whoever reported it knows it. NaN where there is none: looked at by several
// rules at every attempt, and a double stays in a register. Pure.
#pragma once

#include <cmath>
#include <limits>

#include "server/domain/attempt.h"

namespace scalewatch::domain {

inline constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

// True size; none where it was taken after clipping, under an unknown scale, or is not finite and above 0.
inline double reported_norm(const RankReport& report) {
  if (!report.grad_norm || report.grad_norm_clipped || !report.training()) return kNoNumber;
  double norm = *report.grad_norm;
  if (report.grad_norm_scaled) {
    if (report.scalers.empty() || !report.scalers.front().seen.scale_before) return kNoNumber;
    norm /= *report.scalers.front().seen.scale_before;
  }
  return std::isfinite(norm) && norm > 0 ? norm : kNoNumber;
}

// Of the lowest rank that reported one.
inline double reported_norm(const JoinedAttempt& joined) {
  for (const RankReport& report : joined.reports) {
    const double norm = reported_norm(report);
    if (!std::isnan(norm)) return norm;
  }
  return kNoNumber;
}

// What its gradient records come to.
inline double recorded_norm(const RankReport& report) {
  if (!report.training() || !report.gradient_norm || !(report.gradient_scale > 0)) return kNoNumber;
  const double norm = *report.gradient_norm / report.gradient_scale;
  return std::isfinite(norm) && norm > 0 ? norm : kNoNumber;
}

inline double unscaled_norm(const RankReport& report) {
  const double norm = reported_norm(report);
  return std::isnan(norm) ? recorded_norm(report) : norm;
}

// Finite training loss of the lowest rank that told one.
inline double finite_loss(const JoinedAttempt& joined) {
  for (const RankReport& report : joined.reports) {
    if (report.training() && report.loss) return std::isfinite(*report.loss) ? *report.loss : kNoNumber;
  }
  return kNoNumber;
}

}  // namespace scalewatch::domain
