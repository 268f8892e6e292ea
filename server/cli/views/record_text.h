// A tensor's statistics as table cells. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "scalewatch/v1/history.pb.h"
#include "server/cli/text/table.h"

namespace scalewatch::cli {

std::uint64_t infinities(const v1::Record& record);
// Share of subnormal among finite non-zero elements, 0 to 1; absent when there are none.
std::optional<double> underflow(const v1::Record& record);
// Square root of the sum of squares of finite elements.
double norm(const v1::Record& record);

text::Cell absmax_cell(const v1::Record& record);
text::Cell headroom_cell(std::optional<double> octaves);
text::Cell headroom_cell(const v1::Record& record);
text::Cell underflow_cell(const v1::Record& record);
// A count that ought to be 0.
text::Cell bad_count_cell(std::uint64_t count);

// "7" for one attempt, "7-12" for several.
std::string attempts_text(std::uint64_t first, std::uint64_t last);

}  // namespace scalewatch::cli
