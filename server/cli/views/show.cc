#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

#include "server/cli/diagnosis_text.h"
#include "server/cli/finding_text.h"
#include "server/cli/json.h"
#include "server/cli/run_diagnosis.h"
#include "server/cli/run_segment.h"
#include "server/cli/scale_series.h"
#include "server/cli/text/layout.h"
#include "server/cli/text/table.h"
#include "server/cli/text/units.h"
#include "server/cli/views/record_text.h"
#include "server/cli/views/views.h"
#include "server/cli/words.h"

namespace scalewatch::cli {

namespace {

// One screen: more of each is a command of its own.
constexpr std::size_t kMaxFindings = 5;
constexpr int kMaxRanks = 8;
constexpr int kMaxScalers = 4;
constexpr std::uint32_t kTopTensors = 5;

void print_head(const v1::RunSummary& run, const domain::Diagnosis& diagnosis, const Screen& screen) {
  const std::string status(status_word(run.status()));
  screen.out << screen.paint(text::truncate_middle(Screen::name(run.name()), std::max(0, screen.width - 30), screen.ascii),
                             text::Style::kBold)
             << "  " << screen.paint(status, status_style(run.status())) << "  "
             << screen.paint(domain::verdict_text(diagnosis.verdict), severity_style(diagnosis.verdict)) << '\n';
  screen.say(Screen::name(diagnosis.headline));
  std::string facts =
      fmt::format("{} ({} applied, {} skipped, {} partial), step {}, segment {}, {} of {} ranks connected",
                  text::plural(run.attempts(), "attempt"), text::exact(run.applied()), text::exact(run.skipped()),
                  text::exact(run.partial()), run.last_step(), run.segment(), run.ranks_connected(), run.world_size());
  if (!run.framework().empty()) facts += ", " + Screen::name(run.framework());
  if (run.compute_dtype() != v1::DTYPE_UNSPECIFIED) facts += fmt::format(", {} compute", dtype_word(run.compute_dtype()));
  facts += run.last_report_ms() == 0 ? ", no report yet" : ", last report " + screen.when(run.last_report_ms());
  if (run.lost_reports() > 0) facts += fmt::format(", {} lost", text::plural(run.lost_reports(), "report"));
  screen.say(facts);
}

bool anything(const std::vector<text::Sample>& samples) {
  return std::any_of(samples.begin(), samples.end(), [](const text::Sample& s) { return s.value || s.mark != 0; });
}

// What a scaler did, and for the first of them also the loss. Each of several says its name first.
void print_lines(const v1::RunSummary& run, const v1::GetScalerHistoryResponse& history, bool named, bool with_loss,
                 const Screen& screen) {
  constexpr int kLabel = 7;
  const int width = screen.plot_width() - kLabel - 14;  // the newest value follows
  const auto lines = history_lines(history);
  const auto line = [&](std::string_view label, const std::vector<text::Sample>& samples, text::Keep keep,
                        const std::string& newest) {
    screen.out << text::pad(label, kLabel)
               << screen.paint(text::sparkline(samples, width, keep, screen.ascii), text::Style::kNotice) << "  " << newest
               << '\n';
  };
  if (history.points().empty()) return;
  screen.out << '\n';
  const auto& scaler = history.scaler();
  if (named) {
    screen.out << fmt::format("scaler {}{}, {} applied, {} skipped\n", scaler.scaler(),
                              scaler.name().empty() ? "" : " (" + Screen::name(scaler.name()) + ")",
                              text::exact(scaler.applied()), text::exact(scaler.skipped()));
  }
  if (anything(lines.scale))
    line("scale", lines.scale, text::Keep::kSmallest, scaler.has_scale() ? text::scale(scaler.scale()) : "-");
  const auto skips = text::marks(lines.skips, width);
  if (!skips.empty()) screen.out << text::pad("skips", kLabel) << screen.paint(skips, text::Style::kWarning) << '\n';
  if (with_loss && anything(lines.loss))
    line("loss", lines.loss, text::Keep::kLargest,
         (run.has_loss() ? text::magnitude(run.loss()) : "-") + (lines.loss_log ? " log" : ""));
}

void print_findings(const domain::Diagnosis& diagnosis, std::size_t in_all, const Screen& screen) {
  screen.out << '\n';
  const auto& findings = diagnosis.findings;
  if (findings.empty()) screen.out << "No findings.\n";
  const auto shown = std::min(kMaxFindings, findings.size());
  for (std::size_t i = 0; i < shown; ++i) print_finding(findings[i], Detail::kBrief, screen);
  if (shown < findings.size()) {
    screen.out << text::plural(findings.size() - shown, "more finding") + ": `scalewatch doctor --run` shows all.\n";
  }
  if (findings.size() < in_all) {
    screen.out << fmt::format("Earlier segments have {} of their own: --json lists them.\n", in_all - findings.size());
  }
}

void print_ranks(const v1::GetRunResponse& run, const Screen& screen) {
  if (run.ranks().empty()) return;
  screen.out << '\n';
  using text::Align;
  text::Table table({{"RANK", Align::kRight},
                     {"HOST", Align::kLeft, true},
                     {"PID", Align::kRight},
                     {"STATE"},
                     {"ATTEMPT", Align::kRight},
                     {"SEEN", Align::kRight},
                     {"LOST", Align::kRight}});
  for (int i = 0; i < std::min(kMaxRanks, run.ranks_size()); ++i) {
    const auto& rank = run.ranks(i);
    const bool gone = !rank.connected() && !rank.said_goodbye();
    table.add({{fmt::format("{}", rank.rank())},
               {Screen::name(rank.host())},
               {fmt::format("{}", rank.pid())},
               {rank.said_goodbye() ? "finished"
                : rank.connected()  ? "connected"
                                    : "gone",
                gone ? text::Style::kCritical : text::Style::kPlain},
               {fmt::format("{}", rank.last_attempt())},
               {screen.when_briefly(rank.last_seen_ms())},
               bad_count_cell(rank.lost_reports())});
  }
  table.print(screen.out, screen.width, screen.color, screen.ascii);
  if (run.ranks_size() > kMaxRanks)
    screen.out << text::plural(static_cast<std::uint64_t>(run.ranks_size() - kMaxRanks), "more rank") + ": --json lists all.\n";
}

// GPUs that are not measured; of many ranks the first few.
void print_device_faults(const v1::GetRunResponse& run, const Screen& screen) {
  constexpr int kMost = 8;
  int told = 0;
  for (const auto& rank : run.ranks()) {
    for (const std::string& fault : rank.device_faults()) {
      if (told++ < kMost) screen.out << fmt::format("not measured: rank {}, {}\n", rank.rank(), Screen::name(fault));
    }
  }
  if (told > kMost) screen.out << fmt::format("and {} more\n", told - kMost);
}

// Every loss by cause: over all ranks, with the newest range and its rank.
void print_losses(const v1::GetRunResponse& run, const Screen& screen) {
  struct Row {
    std::uint64_t reports = 0;
    std::uint64_t thinned = 0;
    std::uint32_t ranks = 0;
    std::string newest;
  };
  std::map<std::string, Row> rows;
  for (const auto& rank : run.ranks()) {
    for (const auto& loss : rank.losses()) {
      Row& row = rows[loss.cause()];
      row.reports += loss.reports();
      row.thinned += loss.thinned();
      ++row.ranks;
      // Reports that never came weigh more than those that came thinned.
      if (loss.reports() > 0) {
        row.newest = fmt::format("reports {}-{} of rank {}", loss.first_seq(), loss.last_seq(), rank.rank());
      } else if (row.reports == 0) {
        row.newest = fmt::format("attempts {}-{} of rank {}", loss.first_attempt(), loss.last_attempt(), rank.rank());
      }
    }
  }
  if (rows.empty()) return;
  screen.out << '\n';
  using text::Align;
  text::Table table({{"LOSS"},
                     {"REPORTS", Align::kRight},
                     {"THINNED", Align::kRight},
                     {"RANKS", Align::kRight},
                     {"NEWEST", Align::kLeft, true}});
  for (const auto& [cause, row] : rows) {
    table.add({{Screen::name(cause)},
               bad_count_cell(row.reports),
               {text::exact(row.thinned)},
               {fmt::format("{}", row.ranks)},
               {row.newest}});
  }
  table.print(screen.out, screen.width, screen.color, screen.ascii);
}

void print_top(const v1::TopTensorsResponse& top, const Screen& screen) {
  if (top.tensors().empty()) return;
  screen.out << '\n';
  if (top.range().last() > 0) {
    const auto said =
        fmt::format("Least headroom in attempts {}{}", attempts_text(top.range().first(), top.range().last()),
                    top.range().first() > 1 ? ", the newest 100; `scalewatch top RUN --first N` looks further" : "");
    screen.say(said);
  }
  using text::Align;
  text::Table table({{"TENSOR", Align::kLeft, true},
                     {"ROLE"},
                     {"OCTAVES", Align::kRight},
                     {"ABSMAX", Align::kRight},
                     {"ATTEMPT", Align::kRight}});
  for (const auto& tensor : top.tensors()) {
    table.add({{Screen::name(tensor.info().name())},
               {std::string(role_short(tensor.info().role()))},
               headroom_cell(tensor.value()),
               absmax_cell(tensor.worst()),
               {fmt::format("{}", tensor.attempt())}});
  }
  table.print(screen.out, screen.width, screen.color, screen.ascii);
}

}  // namespace

void show_run(Client& client, const ShowOptions& options, const Screen& screen) {
  const auto run = get_run_segment(client, options.run, options.segment);
  if (screen.json) return print_json(run, screen.out);
  const auto history = read_scaler_if_now(client, run);
  v1::TopTensorsRequest top;
  top.set_run(options.run);
  top.set_by(v1::TopTensorsRequest::BY_HEADROOM);
  top.set_limit(kTopTensors);
  top.mutable_range()->set_segment(run.run().segment());
  const auto diagnosis = diagnose(run, history);
  print_head(run.run(), diagnosis, screen);
  print_lines(run.run(), history, run.scalers_size() > 1, true, screen);
  for (int i = 1; i < std::min(kMaxScalers, run.scalers_size()); ++i) {
    print_lines(run.run(), read_scaler_if_now(client, run, run.scalers(i).scaler()), true, false, screen);
  }
  if (run.scalers_size() > kMaxScalers) {
    screen.out << text::plural(static_cast<std::uint64_t>(run.scalers_size() - kMaxScalers), "more scaler")
               << ": `scalewatch scaler RUN --scaler N` shows each.\n";
  }
  print_findings(diagnosis, static_cast<std::size_t>(run.findings_size()), screen);
  print_ranks(run, screen);
  print_device_faults(run, screen);
  print_losses(run, screen);
  print_top(client.top_tensors(top), screen);
}

}  // namespace scalewatch::cli
