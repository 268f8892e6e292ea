#include "server/domain/policies/parameters.h"

#include <algorithm>
#include <cmath>

namespace scalewatch::domain {

template <class Accept>
std::optional<double> ParameterReader::take(Names names, const Accept& accept) {
  std::optional<double> taken;
  for (const char* name : names) {
    known_.emplace_back(name);
    const auto found = given_.find(name);
    if (found == given_.end()) continue;
    if (!std::isfinite(found->second) || !accept(found->second)) {
      refused_.insert(name);
    } else if (!taken) {
      taken = found->second;
    }
  }
  return taken;
}

double ParameterReader::positive(Names names, double fallback) {
  return take(names, [](double value) { return value > 0; }).value_or(fallback);
}

double ParameterReader::above_one(Names names, double fallback) {
  return take(names, [](double value) { return value > 1; }).value_or(fallback);
}

double ParameterReader::below_one(Names names, double fallback) {
  return take(names, [](double value) { return value > 0 && value < 1; }).value_or(fallback);
}

double ParameterReader::zero_or_more(Names names, double fallback) {
  return take(names, [](double value) { return value >= 0; }).value_or(fallback);
}

std::optional<double> ParameterReader::bound(Names names, std::optional<double> fallback) {
  const auto taken = take(names, [](double value) { return value >= 0; });
  if (!taken) return fallback;
  return *taken > 0 ? taken : std::nullopt;
}

std::int64_t ParameterReader::count(Names names, std::int64_t fallback, std::int64_t least) {
  const auto taken =
      take(names, [&](double value) { return value >= static_cast<double>(least) && std::floor(value) == value; });
  return taken ? static_cast<std::int64_t>(std::min(*taken, 0x1p62)) : fallback;
}

std::int32_t ParameterReader::hysteresis(Names names, std::int32_t fallback) {
  const auto taken = take(names, [](double value) { return value >= 1 && value <= 0x1p30 && std::floor(value) == value; });
  return taken ? static_cast<std::int32_t>(*taken) : fallback;
}

bool ParameterReader::flag(Names names, bool fallback) {
  const auto taken = take(names, [](double /*value*/) { return true; });
  return taken ? *taken != 0 : fallback;
}

ParameterCheck ParameterReader::check() const {
  ParameterCheck check;
  check.known = known_;
  check.refused.assign(refused_.begin(), refused_.end());
  for (const auto& [name, value] : given_) {
    if (std::find(known_.begin(), known_.end(), name) == known_.end()) check.unknown.push_back(name);
  }
  return check;
}

}  // namespace scalewatch::domain
