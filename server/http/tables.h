// /api/v1/table/: parts of the history as arrays of flat objects, for programs that want rows and no trees: Grafana's Infinity
// data source, spreadsheets, pandas.read_json. deploy/grafana/README.md lists the columns.
//
// Parameters are those of the JSON API's route of the same name, and `from` and `to`: Unix milliseconds that narrow the
// attempts. Times are Unix milliseconds as numbers; where rows are attempts they are exact for 32 of them and drawn between
// (attempt_times.h). A number that is NaN or infinite is null. Unknown runs and wrong parameters are errors as in api.h;
// nothing stored yet is [].
#pragma once

#include <vector>

#include "server/http/api.h"

namespace scalewatch::http {

std::vector<Route> table_routes(const ApiSources& sources);

}  // namespace scalewatch::http
