// The gradient norm of an attempt, as whoever reported it knows it. Pure.
#pragma once

#include <cmath>
#include <optional>

#include "server/domain/attempt.h"

namespace scalewatch::domain {

// True size; absent where it was taken after clipping, under an unknown scale, or is not finite and above 0.
inline std::optional<double> reported_norm(const RankReport& report) {
  if (!report.grad_norm || report.grad_norm_clipped || !report.training()) return std::nullopt;
  double norm = *report.grad_norm;
  if (report.grad_norm_scaled) {
    if (report.scalers.empty() || !report.scalers.front().seen.scale_before) return std::nullopt;
    norm /= *report.scalers.front().seen.scale_before;
  }
  if (!std::isfinite(norm) || !(norm > 0)) return std::nullopt;
  return norm;
}

// Of the lowest rank that reported one.
inline std::optional<double> reported_norm(const JoinedAttempt& joined) {
  for (const RankReport& report : joined.reports) {
    if (const auto norm = reported_norm(report)) return norm;
  }
  return std::nullopt;
}

// What its gradient records come to.
inline std::optional<double> recorded_norm(const RankReport& report) {
  if (!report.training() || !report.gradient_norm || !(report.gradient_scale > 0)) return std::nullopt;
  const double norm = *report.gradient_norm / report.gradient_scale;
  if (!std::isfinite(norm) || !(norm > 0)) return std::nullopt;
  return norm;
}

inline std::optional<double> unscaled_norm(const RankReport& report) {
  const auto norm = reported_norm(report);
  return norm ? norm : recorded_norm(report);
}

// Of the lowest rank that reported one, or what the gradient records come to where nobody did.
inline std::optional<double> unscaled_norm(const JoinedAttempt& joined) {
  if (const auto norm = reported_norm(joined)) return norm;
  for (const RankReport& report : joined.reports) {
    if (const auto norm = recorded_norm(report)) return norm;
  }
  return std::nullopt;
}

// Finite training loss of the lowest rank that told one.
inline std::optional<double> finite_loss(const JoinedAttempt& joined) {
  for (const RankReport& report : joined.reports) {
    if (!report.training() || !report.loss) continue;
    if (std::isfinite(*report.loss)) return report.loss;
    return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace scalewatch::domain
