// Reports of the wire, checked and seen as the domain sees them. Pure and thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "scalewatch/v1/ingest.pb.h"
#include "server/domain/rank_state.h"
#include "server/engine/ports/history_store.h"

namespace scalewatch::engine {

// What is wrong with a report, or empty: lengths of columns, ids, roles, indexes, scalers, optimizers, attempt.
// `hello` and `table` are those of the report's stream.
std::string report_fault(const v1::Report& report, const v1::Hello& hello, const domain::TensorTable& table);

// The rest is for reports without a fault only.

// Columns of the report's blocks; spans point into `report`.
std::vector<domain::RecordColumns> columns_of(const v1::Report& report);

// Everything of the digest but what RankState::fold fills.
domain::AttemptDigest digest_of(const v1::Report& report, domain::Rank rank, domain::Attempt attempt, domain::TimeMs now,
                                std::shared_ptr<const domain::TensorTable> table);

// What only a log tells, once the rank's state was folded into the digest. Its tensors have a table of their own.
void add_log(const v1::Report& report, domain::AttemptDigest& digest);

// The row to store, less run, stream and pos.
ReportRow row_of(const v1::Report& report);

// Records in all blocks.
std::uint64_t record_count(const v1::Report& report);

}  // namespace scalewatch::engine
