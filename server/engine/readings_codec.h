// A run's readings as a part of its snapshot. Pure and thread-safe.
#pragma once

#include <nlohmann/json.hpp>

#include "server/engine/readings.h"

namespace scalewatch::engine {

nlohmann::json encode_readings(const RunReadings& readings);
// Throws nlohmann::json::exception on what encode_readings() did not make. More roles than are known are left out.
RunReadings decode_readings(const nlohmann::json& in);

}  // namespace scalewatch::engine
