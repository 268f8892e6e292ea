// Runs as a table, for the list of them and for the live view.
#pragma once

#include <google/protobuf/repeated_ptr_field.h>

#include "scalewatch/v1/history.pb.h"
#include "server/cli/screen.h"

namespace scalewatch::cli {

// As somebody on call looks at them: the worst open finding first, then the worst that the newest segment ever had (so a run
// that died of something stands before one that is well), then the newest report.
void sort_runs(google::protobuf::RepeatedPtrField<v1::RunSummary>& runs);

// `whole`: long names stand on lines of their own, so that they can be copied; else they are cut in the middle.
void print_runs(const google::protobuf::RepeatedPtrField<v1::RunSummary>& runs, bool whole, const Screen& screen);

}  // namespace scalewatch::cli
