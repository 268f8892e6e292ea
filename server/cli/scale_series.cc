#include "server/cli/scale_series.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace scalewatch::cli {

namespace {

bool skipped(const v1::ScalerPoint& point) {
  return point.skipped() > 0 || point.partial() > 0;
}

// The scale that was in force at one attempt; the extremes where several are merged.
std::optional<double> end_of(const v1::ScalerPoint& point, bool low) {
  if (point.first_attempt() == point.last_attempt() && point.has_scale_before()) return point.scale_before();
  if (low && point.has_scale_min()) return point.scale_min();
  if (!low && point.has_scale_max()) return point.scale_max();
  if (point.has_scale_before()) return point.scale_before();
  if (point.has_scale_after()) return point.scale_after();
  return std::nullopt;
}

// Losses that span two decades and are all above 0 are told apart by their logarithm alone.
bool spans_decades(const v1::GetScalerHistoryResponse& history) {
  constexpr double kSpan = 100;
  double low = 0;
  double high = 0;
  for (const auto& point : history.points()) {
    if (!point.has_loss() || !std::isfinite(point.loss())) continue;
    if (point.loss() <= 0) return false;
    low = low == 0 ? point.loss() : std::min(low, point.loss());
    high = std::max(high, point.loss());
  }
  return low > 0 && high / low >= kSpan;
}

}  // namespace

std::vector<text::ScaleSample> scale_samples(const v1::GetScalerHistoryResponse& history) {
  std::vector<text::ScaleSample> out;
  out.reserve(static_cast<std::size_t>(history.points_size()));
  for (const auto& point : history.points()) {
    out.push_back({point.first_attempt(), point.last_attempt(), end_of(point, true), end_of(point, false), skipped(point)});
  }
  return out;
}

HistoryLines history_lines(const v1::GetScalerHistoryResponse& history) {
  HistoryLines lines;
  lines.loss_log = spans_decades(history);
  for (const auto& point : history.points()) {
    lines.scale.push_back(text::log2_of(end_of(point, true)));
    const auto told = point.has_loss() ? std::optional<double>(point.loss()) : std::nullopt;
    auto loss = lines.loss_log ? text::log2_of(told) : text::linear(told);
    // A merged point carries its newest loss only; the count tells of the others.
    if (loss.mark == 0 && point.non_finite_losses() > 0) loss.mark = 'N';
    lines.loss.push_back(loss);
    lines.skips.push_back(skipped(point) ? '^' : '\0');
  }
  return lines;
}

}  // namespace scalewatch::cli
