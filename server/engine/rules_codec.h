// Settings of the rules as JSON: those that differ from the built-in ones, by the names of domain::Thresholds. Pure.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "server/domain/thresholds.h"

namespace scalewatch::engine {

// What holds in a log until it says otherwise.
const std::shared_ptr<const domain::Thresholds>& built_in_rules();

nlohmann::json encode_rules(const domain::Thresholds& rules);
// What is not named is as built in; names that this server does not know are of a newer one, and left out. Throws
// nlohmann::json::exception on values of another type.
domain::Thresholds decode_rules(const nlohmann::json& in);

}  // namespace scalewatch::engine
