#include "server/cli/views/whatif_read.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "cuda/record/format.h"
#include "server/cli/attempts.h"
#include "server/cli/views/record_text.h"

namespace scalewatch::cli {

namespace {

using domain::Measured;
using domain::WhatIfAttempt;

// About 100 bytes each: at most 150 MB.
constexpr std::size_t kMaxMeasured = 1'500'000;

// Folds a tensor into what is known of the attempt; true for gradients.
bool fold(WhatIfAttempt& attempt, const v1::TensorRecord& tensor) {
  const auto& record = tensor.record();
  const bool finite = record.nan() == 0 && infinities(record) == 0;
  const auto role = tensor.info().role();
  if (role == v1::ROLE_ACTIVATION) {
    // Only -Inf is likely a mask.
    attempt.scale_no_help = attempt.scale_no_help || record.nan() > 0 || record.pos_inf() > 0;
    return false;
  }
  if (role != v1::ROLE_GRADIENT && role != v1::ROLE_ACTIVATION_GRADIENT) return false;
  attempt.non_finite = attempt.non_finite || !finite;
  const auto largest = absmax(record);
  const double limit = format_limits(static_cast<DType>(tensor.info().dtype())).max_finite;
  if (!largest || *largest <= 0 || limit <= 0) return true;
  const double room = limit / *largest;
  attempt.room = std::min(attempt.room.value_or(room), room);
  return true;
}

const v1::ScalerPoint* point_of(const v1::AttemptSummary& attempt, std::uint32_t scaler) {
  for (const auto& point : attempt.scalers()) {
    if (point.scaler() == scaler && point.has_scale_before()) return &point;
  }
  return nullptr;
}

// Every other attempt of those that are kept goes.
void thin(Recorded& recorded) {
  recorded.stride *= 2;
  std::erase_if(recorded.measured, [&](const Measured& m) { return m.attempt % recorded.stride != 0; });
}

}  // namespace

domain::Spread spread_of(const v1::TensorRecord& tensor) {
  const auto& record = tensor.record();
  domain::Spread out;
  const double scale = scale_of(record);
  out.elements = static_cast<double>(record.numel()) - static_cast<double>(record.nan()) -
                 static_cast<double>(infinities(record)) - static_cast<double>(record.zero());
  out.elements = std::max(0.0, out.elements);
  out.subnormal = static_cast<double>(record.subnormal());
  out.flushed = static_cast<double>(record.flushed());
  out.absmin = record.has_absmin_nonzero() ? record.absmin_nonzero() / scale : 0;
  out.absmax = record.has_absmax() ? record.absmax() / scale : 0;
  out.target = static_cast<DType>(record.target());
  int exponent = 0;
  if (tensor.has_octaves() && std::frexp(scale, &exponent) == 0.5) {  // other scales divide octaves
    out.octaves.assign(tensor.octaves().counts().begin(), tensor.octaves().counts().end());
    out.first_octave = tensor.octaves().first() - (exponent - 1);
  }
  return out;
}

std::size_t TensorNumbers::number(const v1::TensorInfo& info) {
  const auto [found, added] = numbers_.try_emplace({info.name(), static_cast<int>(info.role())}, infos_.size());
  if (added) infos_.push_back(info);
  return found->second;
}

Recorded read_recorded(Client& client, const std::string& run, const RangeOptions& range, std::uint32_t scaler,
                       const Screen& screen) {
  Recorded out;
  bool known = false;
  walk_attempts(client, {run, range, std::nullopt, true, "reading", true}, screen,
                [&](const v1::GetAttemptResponse& page, bool first) {
                  if (first) {
                    const auto* point = point_of(page.attempt(), scaler);
                    known = point != nullptr && std::isfinite(point->scale_before()) && point->scale_before() > 0;
                    if (!known) {
                      ++out.without_scale;
                      return true;
                    }
                    WhatIfAttempt attempt;
                    attempt.attempt = page.attempt().attempt();
                    attempt.scale = point->scale_before();
                    attempt.skipped = point->skipped() + point->partial() > 0;
                    attempt.scale_no_help = page.attempt().has_loss() && !std::isfinite(page.attempt().loss());
                    out.attempts.push_back(attempt);
                  }
                  if (!known) return true;
                  const auto index = out.attempts.size() - 1;
                  for (const auto& tensor : page.tensors()) {
                    if (!fold(out.attempts.back(), tensor) || index % out.stride != 0) continue;
                    auto spread = spread_of(tensor);
                    if (spread.elements > 0)
                      out.measured.push_back({index, out.tensors.number(tensor.info()), std::move(spread)});
                  }
                  if (out.measured.size() > kMaxMeasured) thin(out);
                  return true;
                });
  return out;
}

}  // namespace scalewatch::cli
