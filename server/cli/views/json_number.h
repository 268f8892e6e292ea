// Numbers that JSON has no words for.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

namespace scalewatch::cli {

// The number; null when absent; "NaN", "Infinity" and "-Infinity" as protobuf's JSON has them.
inline nlohmann::ordered_json json_number(std::optional<double> value) {
  if (!value) return nullptr;
  if (std::isnan(*value)) return "NaN";
  if (std::isinf(*value)) return *value > 0 ? "Infinity" : "-Infinity";
  return *value;
}

}  // namespace scalewatch::cli
