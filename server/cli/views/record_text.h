// A tensor's statistics as table cells. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "scalewatch/v1/history.pb.h"
#include "server/cli/screen.h"
#include "server/cli/text/table.h"

namespace scalewatch::cli {

std::uint64_t infinities(const v1::Record& record);
// Share of subnormal among finite non-zero elements, 0 to 1; absent when there are none.
std::optional<double> underflow(const v1::Record& record);
// What stored values are divided by to be unscaled: finite and > 0.
double scale_of(const v1::Record& record);
// Square root of the sum of squares of finite elements, unscaled.
double norm(const v1::Record& record);
// Largest magnitude of finite elements, unscaled; absent when no element is finite.
std::optional<double> absmax(const v1::Record& record);

// Unscaled, as every magnitude that a view shows.
text::Cell absmax_cell(const v1::Record& record);
text::Cell headroom_cell(std::optional<double> octaves);
text::Cell headroom_cell(const v1::Record& record);
text::Cell underflow_cell(const v1::Record& record);
// A count that ought to be 0.
text::Cell bad_count_cell(std::uint64_t count);

// The sentences under a table of records that say what its columns mean; `scaled`: some record was stored under a scale.
void print_record_notes(bool scaled, const Screen& screen);

// "7" for one attempt, "7-12" for several.
std::string attempts_text(std::uint64_t first, std::uint64_t last);

}  // namespace scalewatch::cli
