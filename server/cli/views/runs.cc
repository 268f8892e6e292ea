#include <fmt/format.h>

#include "server/cli/json.h"
#include "server/cli/paging.h"
#include "server/cli/text/table.h"
#include "server/cli/text/units.h"
#include "server/cli/views/views.h"
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
          {run.last_report_ms() == 0 ? "never" : text::ago(screen.now_ms - run.last_report_ms())}};
}

}  // namespace

void show_runs(Client& client, const RunsOptions& options, const Screen& screen) {
  v1::ListRunsRequest request;
  request.set_name_contains(options.name);
  request.set_min_severity(parse_severity(options.min_severity));
  const auto response = read_pages<v1::ListRunsResponse>(
      request, options.limit, [&](const v1::ListRunsRequest& r) { return client.list_runs(r); },
      [](v1::ListRunsResponse& r) { return r.mutable_runs(); });
  if (screen.json) return print_json(response, screen.out);
  if (response.runs().empty()) {
    const bool filtered = !options.name.empty() || !options.min_severity.empty();
    screen.out << (filtered ? "No run matches: see all with `scalewatch runs`.\n"
                            : "No runs yet: link a trainer with Scalewatch::client and point it at this server.\n");
    return;
  }
  using text::Align;
  text::Table table({{"RUN", Align::kLeft, true},
                     {"STATUS"},
                     {"WORST"},
                     {"ATTEMPTS", Align::kRight},
                     {"SKIPPED", Align::kRight},
                     {"SCALE", Align::kRight},
                     {"LOSS", Align::kRight},
                     {"RANKS", Align::kRight},
                     {"REPORT", Align::kRight}});
  for (const auto& run : response.runs()) table.add(row_of(run, screen));
  table.print(screen.out, screen.width, screen.color, screen.ascii);
  if (!response.next_page_token().empty()) screen.out << "More runs follow: raise --limit.\n";
}

}  // namespace scalewatch::cli
