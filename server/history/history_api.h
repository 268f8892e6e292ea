// The history's read side over the embedded store: every unary RPC as a plain function (see read_api.h).
#pragma once

#include <chrono>
#include <memory>

#include "server/engine/ports/read_api.h"
#include "server/history/older_history.h"
#include "server/history/sqlite_store.h"

namespace scalewatch::history {

struct ApiLimits {
  // How long one request may read. A tensor's history then ends early and says where to go on; top tensors say what range was
  // read; a scaler's history fails with RESOURCE_EXHAUSTED. At least one attempt is read whatever the limit.
  std::chrono::milliseconds read_time{2000};
  // How far back a list of tensors looks for each one's newest record, in attempts.
  std::uint32_t newest_record_attempts = 64;
};

// `older`: of attempts that the store does not have, or has only in summaries; null: there is none. Both must outlive it.
// Thread-safe.
std::unique_ptr<engine::HistoryApi> make_history_api(SqliteStore& store, const ApiLimits& limits = {},
                                                     OlderHistory* older = nullptr);

}  // namespace scalewatch::history
