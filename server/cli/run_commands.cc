#include "server/cli/run_commands.h"

#include <cstdint>
#include <string>

#include "server/cli/commands.h"
#include "server/cli/paging.h"
#include "server/cli/views/tensor_stat.h"
#include "server/cli/views/views.h"
#include "server/cli/words.h"

namespace scalewatch::cli {

void RunCommands::add_to(CLI::App& app, Chosen& chosen) {
  add_lists(app, chosen);
  add_run_views(app, chosen);
  add_tensor_views(app, chosen);
}

void RunCommands::add_lists(CLI::App& app, Chosen& chosen) {
  auto* runs = add_command(app, "runs", "List runs, worst first");
  prints(runs, "ListRunsResponse",
         "Order: the worst open finding, then the worst of the newest segment, then the newest report.");
  runs->add_option("--name", runs_.name, "Only runs whose name contains this");
  runs->add_option("--status", runs_.status, "Only runs that are this")->check(CLI::IsMember(status_choices()));
  add_severity(runs, runs_.min_severity);
  add_limit(runs, runs_.limit, "Most runs to list", kMaxItems);
  on(runs, chosen, show_runs, runs_);

  auto* tensors = add_command(app, "tensors", "List a run's tensors in forward order, each with its newest record");
  add_run(tensors, tensors_.run);
  prints(tensors, "ListTensorsResponse");
  add_segment(tensors, tensors_.segment);
  tensors->add_option("--name", tensors_.name, "Only tensors whose name contains this");
  add_role(tensors, tensors_.role);
  add_limit(tensors, tensors_.limit, "Most tensors to list", kMaxItems);
  on(tensors, chosen, show_tensors, tensors_);
}

void RunCommands::add_run_views(CLI::App& app, Chosen& chosen) {
  auto* show = add_command(app, "show", "Show a run on one screen: verdict, scale, loss, findings, ranks, tensors");
  add_run(show, show_.run);
  prints(show, "GetRunResponse");
  add_segment(show, show_.segment);
  on(show, chosen, show_run, show_);

  auto* scaler = add_command(app, "scaler", "Show what a run's scaler did: scale over attempts, skips, changes");
  add_run(scaler, scaler_.run);
  prints(scaler, "GetScalerHistoryResponse");
  scaler->add_option("--scaler", scaler_.scaler, "Index of the scaler")->capture_default_str();
  scaler->add_option("--rank", scaler_.rank, "As this rank saw it (default: the lowest that reported)");
  add_range(scaler, scaler_.range, "the beginning");
  scaler->add_option("--limit", scaler_.limit, "Newest changes to list; 0 = all")->capture_default_str();
  on(scaler, chosen, show_scaler, scaler_);

  auto* tail = add_command(app, "tail", "Print attempts and findings as they come, until Ctrl-C");
  add_run(tail, tail_.run);
  prints(tail, "one TailRunResponse a line,");
  on_stream(tail, chosen, tail_run, tail_);
}

void RunCommands::add_tensor_views(CLI::App& app, Chosen& chosen) {
  auto* history = add_command(app, "history", "Show one tensor over attempts");
  add_run(history, history_.run);
  prints(history, "GetTensorHistoryResponse");
  history->add_option("TENSOR", history_.tensor, "Name of the tensor")->required();
  add_role(history, history_.role);
  history->add_option("--rank", history_.rank, "Records of this rank only (default: all ranks merged)");
  add_range(history, history_.range, "the beginning");
  history->add_option("--points", history_.points, "Points to read; attempts are merged to fit, extremes kept")
      ->capture_default_str()
      ->check(CLI::Range(std::uint32_t{1}, std::uint32_t{10'000}));
  history->add_option("--stat", history_.stat, "Statistic to draw")
      ->capture_default_str()
      ->check(CLI::IsMember(stat_choices()));
  on(history, chosen, show_history, history_);

  auto* top = add_command(app, "top", "List the tensors that lead by one statistic");
  add_run(top, top_.run);
  prints(top, "TopTensorsResponse");
  top->add_option("--by", top_.by, "Statistic to order by; nan counts NaN and Inf")
      ->capture_default_str()
      ->transform([](const std::string& word) { return word == "nonfinite" ? std::string("nan") : word; })
      ->check(CLI::IsMember(by_choices()));
  add_role(top, top_.role);
  add_range(top, top_.range, "the newest 100");
  add_limit(top, top_.limit, "Most tensors to list", kMaxPage);
  on(top, chosen, show_top, top_);
}

}  // namespace scalewatch::cli
