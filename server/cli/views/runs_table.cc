#include "server/cli/views/runs_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "server/cli/text/table.h"
#include "server/cli/text/units.h"
#include "server/cli/words.h"

namespace scalewatch::cli {

namespace {

// The worst open finding; in parentheses the worst that the segment had, when all are resolved.
text::Cell worst_of(const v1::RunSummary& run) {
  if (run.open_findings() > 0)
    return {std::string(severity_word(severity_of(run.worst_open()))), severity_style(severity_of(run.worst_open()))};
  if (run.worst() == v1::SEVERITY_UNSPECIFIED) return {"-"};
  return {fmt::format("({})", severity_word(severity_of(run.worst()))), text::Style::kPlain};
}

std::vector<text::Cell> row_of(const v1::RunSummary& run, const Screen& screen) {
  return {{Screen::name(run.name())},
          {std::string(status_word(run.status())), status_style(run.status())},
          worst_of(run),
          {text::count(run.attempts())},
          {text::percent(static_cast<double>(run.skipped()), static_cast<double>(run.attempts()))},
          {run.has_scale() ? text::scale(run.scale()) : "-"},
          {run.has_loss() ? text::magnitude(run.loss()) : "-"},
          {fmt::format("{}/{}", run.ranks_connected(), run.world_size())},
          {screen.when_briefly(run.last_report_ms())}};
}

}  // namespace

void sort_runs(google::protobuf::RepeatedPtrField<v1::RunSummary>& runs) {
  const auto rank = [](const v1::RunSummary& run) {
    return std::make_tuple(run.worst_open(), std::max(run.worst(), run.worst_open()), run.last_report_ms());
  };
  std::stable_sort(runs.begin(), runs.end(),
                   [&](const v1::RunSummary& a, const v1::RunSummary& b) { return rank(a) > rank(b); });
}

void print_runs(const google::protobuf::RepeatedPtrField<v1::RunSummary>& runs, bool whole, const Screen& screen) {
  using text::Align;
  text::Table table({{"RUN", Align::kLeft, true, whole},
                     {"STATUS"},
                     {"WORST"},
                     {"ATTEMPTS", Align::kRight},
                     {"SKIPPED", Align::kRight},
                     {"SCALE", Align::kRight},
                     {"LOSS", Align::kRight},
                     {"RANKS", Align::kRight},
                     {"REPORT", Align::kRight}});
  for (const auto& run : runs) table.add(row_of(run, screen));
  table.print(screen.out, screen.width, screen.color, screen.ascii);
}

}  // namespace scalewatch::cli
