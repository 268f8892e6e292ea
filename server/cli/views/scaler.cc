#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "server/cli/json.h"
#include "server/cli/scale_series.h"
#include "server/cli/text/plot.h"
#include "server/cli/text/table.h"
#include "server/cli/text/units.h"
#include "server/cli/views/record_text.h"
#include "server/cli/views/views.h"

namespace scalewatch::cli {

namespace {

// The server's largest answer: as many changes as can be seen one by one.
constexpr std::uint32_t kMaxPoints = 10'000;
constexpr int kPlotRows = 16;

std::string parameters_text(const v1::ScalerSummary& scaler) {
  std::vector<std::pair<std::string, double>> sorted(scaler.parameters().begin(), scaler.parameters().end());
  std::sort(sorted.begin(), sorted.end());
  std::string out;
  for (const auto& [name, value] : sorted) {
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", Screen::name(name), text::magnitude(value));
  }
  return out;
}

void print_head(const v1::ScalerSummary& scaler, const Screen& screen) {
  const std::string policy = Screen::name(scaler.policy());
  const std::string name = scaler.name().empty() ? fmt::format("scaler {}", scaler.scaler()) : Screen::name(scaler.name());
  screen.out << screen.paint(name, text::Style::kBold) << ", policy " << (policy.empty() ? "unknown" : policy) << '\n';
  const auto parameters = parameters_text(scaler);
  screen.say(parameters);
}

void print_counts(const v1::GetScalerHistoryResponse& history, const Screen& screen) {
  const auto& scaler = history.scaler();
  std::uint64_t partial = 0;
  std::uint64_t unknown = 0;
  for (const auto& point : history.points()) {
    partial += point.partial();
    unknown += point.unknown();
  }
  std::string counts =
      fmt::format("scale {}, {} applied, {} skipped, {} partial, {} {}", scaler.has_scale() ? text::scale(scaler.scale()) : "-",
                  text::exact(scaler.applied()), text::exact(scaler.skipped()), text::exact(partial),
                  text::exact(scaler.growths()), scaler.growths() == 1 ? "growth" : "growths");
  if (unknown > 0) counts += fmt::format(", {} of unknown outcome", text::exact(unknown));
  if (scaler.has_growth_tracker()) counts += fmt::format(", growth tracker {}", scaler.growth_tracker());
  if (scaler.consecutive_skips() > 0) counts += fmt::format(", {} skips in a row now", scaler.consecutive_skips());
  counts += scaler.calibrating() ? ", still searching for a scale (nothing applied yet)"
                                 : fmt::format(", {} skipped lately", text::percent(scaler.skip_ratio(), 1));
  screen.say(counts);
}

// Points at which something happened to the scale.
std::vector<const v1::ScalerPoint*> changes(const v1::GetScalerHistoryResponse& history) {
  std::vector<const v1::ScalerPoint*> out;
  std::optional<double> previous;
  for (const auto& point : history.points()) {
    const bool moved = point.has_scale_before() && point.has_scale_after() && point.scale_before() != point.scale_after();
    const bool set_between = previous && point.has_scale_before() && *previous != point.scale_before();
    if (moved || set_between || point.skipped() > 0 || point.partial() > 0) out.push_back(&point);
    if (point.has_scale_after()) previous = point.scale_after();
  }
  return out;
}

std::string outcome_text(const v1::ScalerPoint& point) {
  std::string out;
  const auto add = [&](std::uint32_t count, std::string_view word) {
    if (count == 0) return;
    if (!out.empty()) out += ", ";
    out += point.first_attempt() == point.last_attempt() ? std::string(word) : fmt::format("{} {}", count, word);
  };
  add(point.applied(), "applied");
  add(point.skipped(), "skipped");
  add(point.partial(), "partial");
  add(point.unknown(), "unknown");
  return out.empty() ? "-" : out;
}

void print_changes(const v1::GetScalerHistoryResponse& history, std::uint32_t limit, const Screen& screen) {
  const auto all = changes(history);
  if (all.empty()) {
    screen.out << "The scale never changed and nothing was skipped.\n";
    return;
  }
  const std::size_t shown = limit == 0 ? all.size() : std::min<std::size_t>(limit, all.size());
  using text::Align;
  text::Table table({{"ATTEMPT"},
                     {"STEP", Align::kRight},
                     {"OUTCOME", Align::kLeft, true},
                     {"SCALE", Align::kRight},
                     {"AFTER", Align::kRight},
                     {"TRACKER", Align::kRight},
                     {"LOSS", Align::kRight}});
  for (std::size_t i = all.size() - shown; i < all.size(); ++i) {
    const auto& point = *all[i];
    table.add({{attempts_text(point.first_attempt(), point.last_attempt())},
               {fmt::format("{}", point.last_step())},
               {outcome_text(point), point.skipped() + point.partial() > 0 ? text::Style::kWarning : text::Style::kPlain},
               {point.has_scale_before() ? text::scale(point.scale_before()) : "-"},
               {point.has_scale_after() ? text::scale(point.scale_after()) : "-"},
               {point.has_growth_tracker() ? fmt::format("{}", point.growth_tracker()) : "-"},
               {point.has_loss() ? text::magnitude(point.loss()) : "-"}});
  }
  table.print(screen.out, screen.width, screen.color, screen.ascii);
  if (shown < all.size()) screen.out << fmt::format("The newest {} of {} changes: --limit 0 shows all.\n", shown, all.size());
}

}  // namespace

void show_scaler(Client& client, const ScalerOptions& options, const Screen& screen) {
  v1::GetScalerHistoryRequest request;
  request.set_run(options.run);
  request.set_scaler(options.scaler);
  if (options.rank) request.set_rank(*options.rank);
  request.mutable_range()->set_segment(options.range.segment);
  request.mutable_range()->set_first(options.range.first);
  request.mutable_range()->set_last(options.range.last);
  request.set_max_points(kMaxPoints);
  const auto history = client.get_scaler_history(request);
  if (screen.json) return print_json(history, screen.out);
  print_head(history.scaler(), screen);
  print_counts(history, screen);
  screen.out << '\n';
  const auto plot = text::plot_scale(scale_samples(history), screen.plot_width(), kPlotRows, screen.ascii);
  for (const auto& line : plot) screen.out << line << '\n';
  if (plot.empty()) screen.out << "No scale was reported in these attempts.\n";
  screen.out << '\n';
  print_changes(history, options.limit, screen);
}

}  // namespace scalewatch::cli
