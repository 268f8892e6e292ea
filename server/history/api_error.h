// How the read side gives up: thrown within this room, turned into a Status at its edge.
#pragma once

#include "server/engine/ports/read_api.h"

namespace scalewatch::history {

struct ApiError {
  engine::Status status;
};

}  // namespace scalewatch::history
