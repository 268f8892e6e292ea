#include "server/cli/detail_commands.h"

#include <string>

#include "server/cli/commands.h"
#include "server/cli/completion.h"
#include "server/cli/views/tensor_stat.h"
#include "server/cli/views/views.h"
#include "server/cli/views/whatif.h"
#include "server/cli/words.h"

namespace scalewatch::cli {

void DetailCommands::add_to(CLI::App& app, Chosen& chosen) {
  add_attempt(app, chosen);
  add_heatmap(app, chosen);
  add_export(app, chosen);
  add_report(app, chosen);
  add_checklist(app, chosen);
  add_watch(app, chosen);
  add_compare(app, chosen);
  add_whatif(app, chosen);
  add_shell(app, chosen);
}

void DetailCommands::add_attempt(CLI::App& app, Chosen& chosen) {
  auto* added = add_command(app, "attempt", "Show every tensor at one attempt as values flowed, the first bad one marked");
  add_run(added, attempt_.run);
  added->footer("> marks the first bad one. --json: GetAttemptResponse of proto/scalewatch/v1, all pages in one.");
  added->add_option("N", attempt_.attempt, "Number of the attempt; 0 = the newest")->capture_default_str();
  add_segment(added, attempt_.segment);
  added->add_option("--rank", attempt_.rank, "Records of this rank only (default: all ranks merged)");
  added->add_flag("--bad", attempt_.bad, "Only tensors that hold NaN or Inf");
  on(added, chosen, show_attempt, attempt_);
}

void DetailCommands::add_heatmap(CLI::App& app, Chosen& chosen) {
  auto* added = add_command(app, "heatmap", "Draw all tensors over attempts; NaN, Inf and skips are never merged away");
  added->footer(
      "--json: {segment, first, last, columns, stat, log2, skips, tensors: [{name, role, non_finite, values, marks}]}; skips, "
      "values\n"
      "and marks (nan, inf, zero or empty) have one entry a column.");
  add_run(added, heatmap_.run);
  added->add_option("--stat", heatmap_.stat, "Statistic to draw")->capture_default_str()->check(CLI::IsMember(stat_choices()));
  added->add_option("--name", heatmap_.name, "Only tensors whose name contains this");
  add_role(added, heatmap_.role);
  added->add_option("--rank", heatmap_.rank, "Records of this rank only (default: all ranks merged)");
  add_range(added, heatmap_.range, "the newest 500");
  added->add_option("--limit", heatmap_.limit, "Most tensors to draw: those with NaN and Inf or least headroom go first")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  on(added, chosen, show_heatmap, heatmap_);
}

void DetailCommands::add_export(CLI::App& app, Chosen& chosen) {
  auto* added = add_command(app, "export", "Write a run as rows to standard output: CSV or JSON Lines");
  added->footer(
      "Rows come attempt by attempt in memory that does not grow with the run; their number goes to standard error. Values\n"
      "are as stored: divide by measured_under_scale for unscaled ones. What is not known is empty in CSV, null in JSON; NaN "
      "and\n"
      "infinities are NaN, Infinity and -Infinity. In CSV an apostrophe stands before text that a spreadsheet would run as a\n"
      "formula. There is no Parquet or Arrow: Debian 12 has no library for them; pandas, polars and DuckDB read the CSV.");
  add_run(added, export_.run);
  added->add_option("--what", export_.what, "One row a tensor and attempt, an attempt and scaler, or a finding")
      ->capture_default_str()
      ->check(CLI::IsMember({"tensors", "attempts", "findings"}));
  added->add_option("--format", export_.format, "Form of the rows; --json is jsonl")
      ->capture_default_str()
      ->check(CLI::IsMember({"csv", "jsonl"}));
  added->add_option("--name", export_.name, "Only tensors whose name contains this");
  add_role(added, export_.role);
  added->add_option("--rank", export_.rank, "What this rank sent (default: all ranks merged)");
  add_range(added, export_.range, "the beginning");
  on(added, chosen, export_run, export_);
}

void DetailCommands::add_report(CLI::App& app, Chosen& chosen) {
  auto* added = add_command(app, "report", "Write a run as one HTML page to standard output, to send to a colleague");
  added->footer(
      "scalewatch report RUN > report.html: plots, findings with evidence and advice, the checklist. The page asks for "
      "nothing\n"
      "from elsewhere and runs no script.\n"
      "--json: {run, run_uid, segment, diagnosis, checklist, first, last, skips, loss, grad_norm, scales}; diagnosis as doctor "
      "and\n"
      "checklist as checklist print them, series as [{first, last, low, high, nan, inf}].");
  add_run(added, report_.run);
  on(added, chosen, write_report, report_);
}

void DetailCommands::add_checklist(CLI::App& app, Chosen& chosen) {
  auto* added = add_command(app, "checklist", "Hold a run or a log against a practitioner's checklist for mixed precision");
  added->footer(
      "Each item holds, is violated, or can't be observed: then it says what to send so that it can. Exit codes: 0 nothing is\n"
      "violated, 1 something is, 3 nothing could be read.\n"
      "--json: {holds, violated, not_observable, items: [{id, title, verdict, evidence, send}]}.");
  added->add_option("WHAT", checklist_.what, "A log file, where one of that name exists; else the name or uid of a run")
      ->required();
  on(added, chosen, show_checklist, checklist_);
}

void DetailCommands::add_watch(CLI::App& app, Chosen& chosen) {
  auto* added = add_command(app, "watch", "Show all runs live, worst first, until Ctrl-C");
  added->footer(
      "On a terminal it fills the screen and gives it back at the end; elsewhere each picture follows the one before. Order: "
      "the\n"
      "worst open finding, then the worst of the newest segment, then the newest report.\n"
      "--json: one ListRunsResponse a line.");
  added->add_option("--name", watch_.name, "Only runs whose name contains this");
  add_severity(added, watch_.min_severity, "Only runs with an open finding at least this bad");
  added->add_option("--interval", watch_.interval_s, "Seconds between pictures")
      ->capture_default_str()
      ->check(CLI::Range(0.2, 3600.0));
  added->add_option("--count", watch_.count, "Pictures to show; 0 = until Ctrl-C")->capture_default_str();
  on_stream(added, chosen, watch_runs, watch_);
}

void DetailCommands::add_compare(CLI::App& app, Chosen& chosen) {
  auto* added = add_command(app, "compare", "Show where two runs part: by attempt and tensor; norms, zeros, skips");
  added->footer(
      "RUN_A is the baseline, in fp32 or bf16 say; attempts are matched by number, tensors by name and role. Newest segments.\n"
      "--json: {a, b, first, last, attempts, loss_parts_at, outcome_parts_at, tensors: [{name, role, attempts, parts_at, "
      "octaves,\n"
      "octaves_at, zeros_a, zeros_b, non_finite_a, non_finite_b}]}; a and b are {run, run_uid, segment, skipped, loss, "
      "grad_norm}.");
  added->add_option("RUN_A", compare_.run_a, "Name or uid of the baseline")->required();
  added->add_option("RUN_B", compare_.run_b, "Name or uid of the run beside it")->required();
  added->add_option("--first", compare_.first, "First attempt (default: the first of both, at most 2,000 before the last)");
  added->add_option("--last", compare_.last, "Last attempt, inclusive (default: the last of both)");
  added->add_option("--octaves", compare_.octaves, "Norms that differ by more than this many octaves have parted")
      ->capture_default_str()
      ->check(CLI::Range(0.01, 100.0));
  added->add_option("--limit", compare_.limit, "Most tensors to list")->capture_default_str()->check(CLI::Range(1, 1000));
  on(added, chosen, compare_runs, compare_);
}

void DetailCommands::add_whatif(CLI::App& app, Chosen& chosen) {
  auto* added = add_command(app, "whatif", "Tell what another loss scaler would have done with the gradients of a run");
  added->footer(
      "Without --policy --set changes single parameters of the one that ran; with it, the others are that policy's own. The\n"
      "replay of the policy that ran is told beside it: where that is not exact, neither is the rest. --best searches the\n"
      "initial scale, growth interval, backoff factor and hysteresis for the fewest skips.\n"
      "--json: {attempts, replay_differs_at, ran, instead, search, underflow, underflow_of_every, tensors: [{name, role,\n"
      "elements, went, instead}], steps: [{attempt, skipped, scale, instead_skipped, instead_scale, undecided}]}; ran and\n"
      "instead are {policy, parameters, skipped, growths, undecided, unknown, scale_min, scale_last, ended}; search is null "
      "or\n"
      "{searched, tried, most_underflow, underflow, within}; underflow is {went, instead}; shares are {subnormal, flushed} of\n"
      "{low, high} or null. --bf16 --json: {attempts, skipped, loss_or_activation_non_finite, already_bf16, tensors: [{name,\n"
      "role, elements, zero, non_finite, went, bf16}]}.");
  add_run(added, whatif_.run);
  add_segment(added, whatif_.segment);
  added->add_option("--scaler", whatif_.scaler, "Index of the scaler")->capture_default_str();
  auto* policy = added->add_option("--policy", whatif_.policy, "Scaler to replay, in place of the one that ran");
  auto* set = added->add_option("--set", whatif_.settings, "Parameter of the scaler as KEY=VALUE; may be repeated")
                  ->allow_extra_args(false);
  auto* best = added->add_flag("--best", whatif_.best, "Search the settings that skip least at bounded underflow");
  added
      ->add_option("--max-underflow", whatif_.most_underflow,
                   "Bound of --best: percent of gradient elements that may be subnormal (default: 1, or as it went)")
      ->check(CLI::Range(0.0, 100.0))
      ->needs(best);
  added->add_flag("--bf16", whatif_.bf16, "Tell what bf16 would have changed: range lost and gained by tensor")
      ->excludes(policy)
      ->excludes(set)
      ->excludes(best);
  added->add_option("--limit", whatif_.limit, "Most tensors to list")->capture_default_str()->check(CLI::Range(1, 100'000));
  on(added, chosen, show_whatif, whatif_);
}

void DetailCommands::add_shell(CLI::App& app, Chosen& chosen) {
  auto* completion = add_command(app, "completion", "Print a completion script for a shell; asks no server");
  completion->footer(
      "bash: scalewatch completion bash > /etc/bash_completion.d/scalewatch; zsh: into a file _scalewatch on the fpath;\n"
      "fish: into ~/.config/fish/completions/scalewatch.fish. Runs are completed from $SCALEWATCH_SERVER.");
  completion->add_option("SHELL", shell_, "Shell to print for")->required()->check(CLI::IsMember(shell_choices()));
  completion->callback([this, &app, &chosen] {
    chosen.local = [this, &app](const Screen& screen, const std::stop_token&) {
      screen.out << completion_script(app, shell_);
      return kExitOk;
    };
  });
  auto* man = add_command(app, "man", "Print the manual page; asks no server");
  man->footer("scalewatch man | man -l - reads it; scalewatch man > /usr/local/share/man/man1/scalewatch.1 installs it.");
  man->callback([&app, &chosen] {
    chosen.local = [&app](const Screen& screen, const std::stop_token&) {
      screen.out << man_page(app);
      return kExitOk;
    };
  });
}

}  // namespace scalewatch::cli
