// The diagnosis of a run that a server knows.
#pragma once

#include <cstdint>
#include <optional>

#include "scalewatch/v1/history.pb.h"
#include "server/cli/client.h"
#include "server/domain/diagnosis.h"

namespace scalewatch::cli {

// What one scaler did over the newest segment (of several, the first by default); empty for a run that has no scaler.
v1::GetScalerHistoryResponse read_scaler(Client& client, const v1::GetRunResponse& run,
                                         std::optional<std::uint32_t> scaler = {});
// The same for a view that has more to show: where the server cannot answer now, that is noted, and it is empty.
v1::GetScalerHistoryResponse read_scaler_if_now(Client& client, const v1::GetRunResponse& run,
                                                std::optional<std::uint32_t> scaler = {});

// Of the newest segment alone.
domain::Diagnosis diagnose(const v1::GetRunResponse& run, const v1::GetScalerHistoryResponse& history);

}  // namespace scalewatch::cli
