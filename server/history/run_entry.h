// A run as lists show it, encoded.
#pragma once

#include <string>

#include "server/history/sqlite.h"

namespace scalewatch::history {

// The RunSummary of a row of select_runs(). Of its overview only the run itself, for a wide one has a thousand ranks that a
// list does not show, and as it is stored: of a thousand runs a page, each would else be parsed and written again. One whose
// overview is damaged is told by its columns: it must not hide the others.
void encode_run(const Query& row, std::string& out);

}  // namespace scalewatch::history
