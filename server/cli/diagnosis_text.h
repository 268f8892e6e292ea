// A diagnosis as people and programs read it, whatever it was made from.
//
// JSON: {"format", "verdict": "healthy|info|warning|critical", "headline", "attempts": {"seen", "applied", "skipped",
// "unknown"}, "scale": {"first", "last", "min"}, "findings": [{"rule", "severity", "first_step", "last_step", "line", "ranks",
// "blamed", "evidence": [{"name", "value", "unit", "limit"}], "advice": [{"id", "text", "confidence"}]}]}. What is not known is
// null; NaN and infinities are "NaN", "Infinity" and "-Infinity".
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/cli/screen.h"
#include "server/cli/text/plot.h"
#include "server/domain/diagnosis.h"

namespace scalewatch::cli {

// One scaler's scale over attempts. The title is for telling several apart; empty: none.
struct ScalePlot {
  std::string title;
  std::vector<text::ScaleSample> scale;
};

void print_diagnosis(const domain::Diagnosis& diagnosis, std::span<const ScalePlot> plots, const Screen& screen);
// One of its findings, on one line.
std::string finding_json_line(const domain::Finding& finding);
std::string diagnosis_json(const domain::Diagnosis& diagnosis, std::string_view format);

}  // namespace scalewatch::cli
