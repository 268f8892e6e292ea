// One flat JSON object from each of the history's messages.
#pragma once

#include <nlohmann/json.hpp>

#include "scalewatch/v1/history.pb.h"
#include "server/http/attempt_times.h"

namespace scalewatch::http {

using Rows = nlohmann::ordered_json;  // an array; keys keep their order

Rows tensor_rows(const v1::ListTensorsResponse& response);
Rows history_rows(const v1::GetTensorHistoryResponse& response, const AttemptTimes& times);
Rows scaler_rows(const v1::GetScalerHistoryResponse& response, const AttemptTimes& times);
Rows top_rows(const v1::TopTensorsResponse& response, const AttemptTimes& times);
// One row a cell, by time, then in forward order; null where there is nothing to tell, so that columns stay evenly spaced.
Rows heat_map_rows(const v1::GetHeatMapResponse& response, const AttemptTimes& times);
// Findings that were open between two times, Unix milliseconds; 0 = no bound.
Rows finding_rows(const v1::GetRunResponse& response, std::int64_t from_ms, std::int64_t to_ms);
Rows rank_rows(const v1::GetRunResponse& response);

}  // namespace scalewatch::http
