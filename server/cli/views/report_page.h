// The page of `scalewatch report`: HTML with inline SVG and style, no script, no address of anything elsewhere.
#pragma once

#include <cstdint>
#include <map>
#include <ostream>
#include <vector>

#include "scalewatch/v1/history.pb.h"
#include "server/cli/html/series.h"
#include "server/cli/options.h"
#include "server/domain/checklist.h"
#include "server/domain/diagnosis.h"

namespace scalewatch::cli {

struct ReportSeries {
  RangeOptions range;  // both ends set
  html::Series loss;
  html::Series norm;
  std::map<std::uint32_t, html::Series> scales;  // by scaler
  std::vector<std::uint64_t> skips;              // attempts that were skipped or partial, rising
};

struct ReportData {
  const v1::GetRunResponse& run;
  const domain::Diagnosis& diagnosis;
  std::vector<domain::ChecklistItem> checklist;
  ReportSeries series;
  v1::TopTensorsResponse top;  // by least headroom
  std::int64_t now_ms = 0;
};

// Pure but for `out`. Every text of somebody else's making is escaped.
void write_page(const ReportData& data, std::ostream& out);

}  // namespace scalewatch::cli
