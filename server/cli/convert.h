// From the wire to the domain, so that views and diagnosis know one kind of finding. Pure.
#pragma once

#include "scalewatch/v1/types.pb.h"
#include "server/domain/finding.h"

namespace scalewatch::cli {

// The opposite of engine::to_proto; the run's uid is taken off the id.
domain::Finding from_proto(const v1::Finding& finding);

}  // namespace scalewatch::cli
