// /api/v1/: the history and alerts RPCs as JSON, one route an RPC.
//
// JSON is Protobuf's own mapping with the contract's field names: 64-bit numbers are strings, NaN and infinities are "NaN",
// "Infinity" and "-Infinity". Fields without presence are always there, also when zero; optional ones only when set.
// Parameters are the request's fields; see set_fields. A POST takes its request as a JSON body (application/json) as well.
// Errors are {"code", "message"} with 400, 401, 403, 404, 409, 415, 429, 500 or 503.
#pragma once

#include <functional>
#include <vector>

#include "server/auth/gate.h"
#include "server/auth/guarded_history.h"
#include "server/engine/ports/read_api.h"
#include "server/http/router.h"

namespace scalewatch::http {

// The functions return null while the server can't answer yet or any more (503).
struct ApiSources {
  std::function<engine::HistoryApi*()> history;
  std::function<engine::AlertsApi*()> alerts;
  auth::Gate* gate = nullptr;  // see Sources
  auth::NameOfRun name_of{};
};

std::vector<Route> api_routes(const ApiSources& sources);

// The HTTP status that tells of one of the history's or the alerts' errors.
unsigned http_status(engine::Status::Code code);

}  // namespace scalewatch::http
