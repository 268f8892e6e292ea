// What a client says at the start of a stream, checked. Pure and thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "scalewatch/v1/ingest.pb.h"
#include "server/domain/observation.h"
#include "server/engine/ports/history_store.h"

namespace scalewatch::engine {

inline constexpr std::uint32_t kProtocolVersion = 1;  // newest that this server speaks; it accepts all from 1

// No client start can have given out as many seqs: thirty years at a thousand reports a second.
inline constexpr std::uint64_t kMaxSeq = 1ULL << 40;

// What is wrong with a Hello and what to do; empty when it is valid.
std::string hello_fault(const v1::Hello& hello, std::uint32_t max_ranks);

// The same of scalers that are named later.
std::string scaler_infos_fault(const google::protobuf::RepeatedPtrField<v1::ScalerInfo>& scalers);

// Only for what is without a fault.
domain::ScalerInfo to_domain(const v1::ScalerInfo& scaler);
Incarnation incarnation_of(const v1::Hello& hello);
domain::RankJoined to_rank_joined(const v1::Hello& hello, domain::TimeMs now);

// Appends a delta to a table. Returns what is wrong, or an empty string; a table with a fault is left as it was.
// A delta that starts at 0 again must repeat what is there, byte for byte.
std::string append_table(domain::TensorTable& table, const v1::TableDelta& delta, const v1::Limits& limits);

// Hello.table_hash of a table.
std::uint64_t table_hash(const domain::TensorTable& table);

// A cause of a later protocol is taken as internal.
domain::LossCause loss_cause(v1::LossCause cause);

}  // namespace scalewatch::engine
