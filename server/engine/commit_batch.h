// Rows of a transaction, put together and taken apart.
#pragma once

#include <map>
#include <string>

#include "server/engine/ports/history_store.h"

namespace scalewatch::engine {

// Moves all rows of `from` behind those of `to`.
void append(CommitBatch& to, CommitBatch& from);

// Moves what does not wait for history: alerts, what became of them, silences.
void move_alerts(CommitBatch& to, CommitBatch& from);

// The rows of each run by its uid, in their order; under "" those that belong to no run (silences).
std::map<std::string, CommitBatch> by_run(CommitBatch batch);

}  // namespace scalewatch::engine
