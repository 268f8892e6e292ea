#include "server/domain/policy.h"

#include <algorithm>

namespace scalewatch::domain {

PolicyState Policy::peek(bool found_inf) const {
  PolicyState after = state_;
  if (!after.ended) next(after, found_inf);
  return after;
}

double Policy::update(bool found_inf) {
  if (!state_.ended) next(state_, found_inf);
  return state_.scale;
}

void Policy::resync(const PolicyObservation& seen) {
  if (seen.scale) state_.scale = *seen.scale;
  if (seen.growth_tracker && *seen.growth_tracker >= 0) state_.clean = *seen.growth_tracker;
  if (seen.hysteresis && hysteresis_tracker()) state_.hysteresis = std::min(*seen.hysteresis, hysteresis());
  state_.ended = false;
}

std::optional<std::int64_t> Policy::growth_tracker() const {
  if (!growth_interval()) return std::nullopt;
  return state_.clean;
}

std::optional<std::int32_t> Policy::hysteresis_tracker() const {
  if (!has_hysteresis()) return std::nullopt;
  return state_.hysteresis;
}

std::int32_t Policy::skips_to_backoff() const {
  return std::max(1, state_.hysteresis);
}

bool Policy::at_floor() const {
  const auto lowest = floor();
  return dynamic() && lowest && state_.scale <= *lowest;
}

std::string Policy::fatal() const {
  return !state_.ended && peek(true).ended ? fatal_words() : std::string();
}

}  // namespace scalewatch::domain
