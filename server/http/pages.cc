#include "server/http/pages.h"

#include <string>

namespace scalewatch::http {
namespace {

constexpr const char* kIndex =
    R"(Scalewatch

/metrics    Prometheus metrics
/healthz    200 while the process lives
/readyz     200 when it takes reports and keeps history, else 503 and why
Where tokens are asked for, all but / and these two need the header "Authorization: Bearer TOKEN".

JSON; parameters in brackets are optional, NAME may be a run's name or run_uid; encode "/" in names as %2F
/api/v1/runs                                  [page_size page_token name_contains status min_severity]
/api/v1/runs/NAME
/api/v1/runs/NAME/tensors                     [page_size page_token name_contains role]
/api/v1/runs/NAME/tensors/TENSOR/history      [role rank segment first last max_points]
/api/v1/runs/NAME/attempts/N                  [segment rank page_size page_token]; N = 0 is the newest
/api/v1/runs/NAME/top                         [by limit role segment first last]
/api/v1/runs/NAME/scaler                      [scaler rank segment first last max_points]
/api/v1/runs/NAME/heatmap                     [by tensor_contains role max_tensors segment first last max_columns]
/api/v1/table/runs/NAME/...                   findings ranks tensors tensors/TENSOR/history scaler top heatmap: the same as
                                              arrays of flat objects, with [from to] in Unix milliseconds besides
/api/v1/alerts                                [page_size page_token run states min_severity]
POST /api/v1/alerts/ID/acknowledge            {"who": "...", "comment": "..."} as application/json
POST /api/v1/alerts/acknowledge?id=ID         the same
/api/v1/alerts/get?id=ID                      one alert with its audit trail
/api/v1/alerts/dead                           [page_size page_token sink]; pages that a sink never took
POST /api/v1/alerts/replay                    {"sink": "...", "key": "...", "who": "..."}: sends them again; without sink and key all
/api/v1/silences                              [ended]
POST /api/v1/silences                         {"matchers": ["run=\"NAME\""], "duration_ms": 7200000, "who": "...", "reason": "..."}
POST /api/v1/silences/ID/end                  {"who": "..."}
)";

}  // namespace

std::vector<Route> page_routes(const Sources& sources) {
  const auto text = [](unsigned status, std::string body) {
    return Response{status, "text/plain; charset=utf-8", std::move(body), {}};
  };
  return {
      {"GET", "/", Speed::kQuick, [=](const Call&) { return text(200, kIndex); }, Needs::kNothing},
      {"GET", "/metrics", Speed::kQuick,
       [metrics = sources.metrics](const Call&) {
         return Response{200, "text/plain; version=0.0.4; charset=utf-8", metrics(), {}};
       },
       Needs::kReadAll},
      {"GET", "/healthz", Speed::kQuick, [=](const Call&) { return text(200, "ok\n"); }, Needs::kNothing},
      {"GET", "/readyz", Speed::kQuick,
       [=, not_ready = sources.not_ready](const Call&) {
         const std::string reason = not_ready();
         return reason.empty() ? text(200, "ready\n") : text(503, "not ready: " + reason + "\n");
       },
       Needs::kNothing},
  };
}

}  // namespace scalewatch::http
