// What the ranks' found_inf say of an attempt. Pure.
#pragma once

#include <algorithm>
#include <optional>

#include "server/domain/attempt.h"

namespace scalewatch::domain {

template <class Predicate>
bool any_optimizer(const RankReport& report, Predicate predicate) {
  for (const ScalerReport& scaler : report.scalers) {
    for (const OptimizerObservation& optimizer : scaler.seen.optimizers) {
      if (predicate(optimizer)) return true;
    }
  }
  return false;
}

// The rank's own found_inf was told for each of its optimizers.
inline bool local_found_inf_known(const RankReport& report) {
  return any_optimizer(report, [](const OptimizerObservation& o) { return o.found_inf_local.has_value(); }) &&
         !any_optimizer(report, [](const OptimizerObservation& o) { return !o.found_inf_local.has_value(); });
}
inline bool local_found_inf(const RankReport& report) {
  return any_optimizer(report, [](const OptimizerObservation& o) { return o.found_inf_local.value_or(0) != 0; });
}
inline bool found_inf(const RankReport& report) {
  return any_optimizer(report, [](const OptimizerObservation& o) {
    return o.found_inf_local.value_or(0) != 0 || o.found_inf_decided.value_or(0) != 0;
  });
}

}  // namespace scalewatch::domain
