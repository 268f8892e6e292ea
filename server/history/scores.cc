#include "server/history/scores.h"

#include <cmath>

namespace scalewatch::history {

namespace {

std::optional<double> as_float(std::optional<double> value) {
  if (value) value = rounded_up(*value);
  return value;
}

}  // namespace

Need need_of(By::By by) {
  switch (by) {
    case By::BY_ABSMAX:
      return Need::kMagnitude;
    case By::BY_UNDERFLOW:
      return Need::kUnderflow;
    case By::BY_NON_FINITE:
      return Need::kNonFinite;
    case By::BY_NORM:
      return Need::kNorm;
    default:
      return Need::kHeadroom;
  }
}

std::optional<double> score(By::By by, const Measured& measured) {
  const auto& record = measured.record;
  switch (by) {
    case By::BY_ABSMAX:
      if (std::isnan(record.absmax())) return std::nullopt;
      return record.absmax() / measured.scale;
    case By::BY_UNDERFLOW:
      return as_float(underflow_of(measured));
    case By::BY_NON_FINITE:
      if (record.non_finite() == 0) return std::nullopt;
      return static_cast<double>(record.non_finite());
    case By::BY_NORM:
      return as_float(norm_of(measured));
    default:
      if (const auto octaves = headroom_of(measured)) return -*octaves;
      return std::nullopt;
  }
}

std::optional<double> score_bound(By::By by, const TensorSummary& summary) {
  // Values under several scales were divided as floats.
  constexpr double kSlack = 1 + 1e-6;
  switch (by) {
    case By::BY_ABSMAX: {
      const auto value = score(by, summary.total);
      if (value && summary.scale_low != summary.scale_high) return *value * kSlack;
      return value;
    }
    case By::BY_UNDERFLOW:
      if (summary.underflow == 0) return std::nullopt;
      return summary.underflow;
    case By::BY_NORM:
      if (summary.total.record.finite() == 0) return std::nullopt;
      return summary.norm;
    case By::BY_NON_FINITE:
      return score(by, summary.total);
    default:
      if (summary.headroom) return -*summary.headroom;
      return std::nullopt;
  }
}

}  // namespace scalewatch::history
