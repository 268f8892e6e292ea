// Bytes by their place in a number. A report as received is mostly packed floats and doubles, next to each other: with all
// their first bytes together, then all their second ones, signs and exponents stand beside their like, and so do the zeros that
// sums end in. What LZ4 makes of that is a quarter smaller and takes it a third less time (zstd: a fifth smaller); see
// tests/bench/RESULTS.md.
//
// Thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "server/history/clickhouse/native.h"

namespace scalewatch::clickhouse {

// Bytes 0, 8, 16, ..., then 1, 9, 17, ..., up to 7, 15, 23, ...; what is left of the last 8 stays at the end.
std::string to_lanes(std::string_view bytes);
std::string from_lanes(std::string_view lanes);
// A report as received, from `payload, lanes` of a row of `payloads`.
std::string read_payload(RowReader& row);

}  // namespace scalewatch::clickhouse
