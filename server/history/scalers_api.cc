// What a scaler did over attempts.
#include <string>

#include "server/history/api_impl.h"
#include "server/history/page_token.h"
#include "server/history/scaler_reader.h"

namespace scalewatch::history {

engine::Status Api::get_scaler_history(const v1::GetScalerHistoryRequest& request, v1::GetScalerHistoryResponse& response) {
  return guard(response, [&] { do_get_scaler_history(request, response); });
}

void Api::do_get_scaler_history(const v1::GetScalerHistoryRequest& request, v1::GetScalerHistoryResponse& response) {
  const std::size_t max_points = checked_limit("max_points", request.max_points(), 1000, 10'000);
  const StoredRun run = run_named(request.run());
  v1::GetRunResponse overview;
  overview.ParseFromString(run.row.overview);
  bool known = false;
  std::string others;
  for (auto& scaler : *overview.mutable_scalers()) {
    others += (others.empty() ? "" : ", ") + std::to_string(scaler.scaler()) + " (" + scaler.name() + ")";
    if (scaler.scaler() != request.scaler()) continue;
    *response.mutable_scaler() = std::move(scaler);
    known = true;
  }
  if (const auto span = span_of(run, request.range())) {
    const std::uint64_t width = (span->last - span->first) / max_points + 1;
    std::optional<std::uint32_t> rank;
    if (request.has_rank()) rank = request.rank();
    std::uint64_t bucket = 0;
    const auto rest = read_scaler(pool_, {run.id, span->segment, request.scaler(), span->first, span->last, rank}, deadline(),
                                  [&](const StoredScaler& row) {
                                    const std::uint64_t now = (row.attempt - span->first) / width;
                                    if (response.points().empty() || now != bucket) {
                                      response.add_points()->set_scaler(request.scaler());
                                    }
                                    bucket = now;
                                    add_to_point(row, *response.mutable_points()->rbegin());
                                  });
    if (rest) {
      throw ApiError{{engine::Status::kResourceExhausted, "range: attempts " + std::to_string(span->first) + " to " +
                                                              std::to_string(*rest - 1) +
                                                              " are as many as can be read at once; ask for a smaller range"}};
    }
  }
  if (!known && response.points().empty()) {
    throw ApiError{{engine::Status::kNotFound, "run \"" + run.row.name + "\" has no scaler " +
                                                   std::to_string(request.scaler()) +
                                                   (others.empty() ? "; it reported none" : "; it has " + others)}};
  }
  response.mutable_scaler()->set_scaler(request.scaler());
}

}  // namespace scalewatch::history
