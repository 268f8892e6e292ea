// Findings as the wire knows them. Pure and thread-safe.
#pragma once

#include <string>

#include "scalewatch/v1/types.pb.h"
#include "server/domain/finding.h"

namespace scalewatch::engine {

// The id of a finding across runs: run_uid + "/" + the domain's id.
std::string finding_id(const std::string& run_uid, const domain::Finding& finding);

v1::Finding to_proto(const std::string& run_uid, const domain::Finding& finding);

}  // namespace scalewatch::engine
