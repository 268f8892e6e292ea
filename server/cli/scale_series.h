// A scaler's history as the plots want it. Pure.
#pragma once

#include <vector>

#include "scalewatch/v1/history.pb.h"
#include "server/cli/text/plot.h"

namespace scalewatch::cli {

std::vector<text::ScaleSample> scale_samples(const v1::GetScalerHistoryResponse& history);

// The same history as lines of one character an attempt (or several merged).
struct HistoryLines {
  std::vector<text::Sample> scale;  // log2
  std::vector<text::Sample> loss;
  bool loss_log = false;    // loss is log2: it spans decades
  std::vector<char> skips;  // '^' where something was skipped
};
HistoryLines history_lines(const v1::GetScalerHistoryResponse& history);

}  // namespace scalewatch::cli
