// The pages beside the API: /, /metrics, /healthz, /readyz.
#pragma once

#include <vector>

#include "server/http/router.h"
#include "server/http/server.h"

namespace scalewatch::http {

std::vector<Route> page_routes(const Sources& sources);

}  // namespace scalewatch::http
