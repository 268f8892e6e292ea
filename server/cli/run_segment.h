// A run as one of its segments saw it.
#pragma once

#include <cstdint>
#include <string>

#include "scalewatch/v1/history.pb.h"
#include "server/cli/client.h"

namespace scalewatch::cli {

// What get_run answers, of `segment` (0 = the newest). Of an earlier segment only what is stored of it is told: attempts and
// their outcomes, step, loss, scale and findings; its ranks are not. Throws CallError, also for a segment that does not exist.
v1::GetRunResponse get_run_segment(Client& client, const std::string& run, std::uint32_t segment);

}  // namespace scalewatch::cli
