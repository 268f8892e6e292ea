// One function a command: asks the server, prints to the screen. All throw CallError.
#pragma once

#include <istream>
#include <stop_token>

#include "server/cli/client.h"
#include "server/cli/options.h"
#include "server/cli/screen.h"

namespace scalewatch::cli {

void show_runs(Client& client, const RunsOptions& options, const Screen& screen);
void show_run(Client& client, const ShowOptions& options, const Screen& screen);
void show_scaler(Client& client, const ScalerOptions& options, const Screen& screen);
void show_tensors(Client& client, const TensorsOptions& options, const Screen& screen);
void show_history(Client& client, const HistoryOptions& options, const Screen& screen);
void show_top(Client& client, const TopOptions& options, const Screen& screen);
void list_alerts(Client& client, const AlertsOptions& options, const Screen& screen);
void acknowledge_alert(Client& client, const AckOptions& options, const Screen& screen);

// Follow the server until it ends the stream or `stop` is requested.
void watch_alerts(Client& client, const AlertsOptions& options, const Screen& screen, const std::stop_token& stop);
void tail_run(Client& client, const TailOptions& options, const Screen& screen, const std::stop_token& stop);

void show_attempt(Client& client, const AttemptOptions& options, const Screen& screen);
void show_heatmap(Client& client, const HeatmapOptions& options, const Screen& screen);
void export_run(Client& client, const ExportOptions& options, const Screen& screen);
void write_report(Client& client, const ReportOptions& options, const Screen& screen);
ExitCode show_checklist(Client& client, const ChecklistOptions& options, const Screen& screen);
void compare_runs(Client& client, const CompareOptions& options, const Screen& screen);

// Redraws all runs until `stop` is requested.
void watch_runs(Client& client, const WatchOptions& options, const Screen& screen, const std::stop_token& stop);

// What a policy does on given found_inf, without a server. `standard_input` is read for the trace "-".
void replay_trace(const ReplayOptions& options, std::istream& standard_input, const Screen& screen);

// What logs tell, without a server; `progress` may be null. The exit code follows the verdict.
ExitCode diagnose_files(const DoctorOptions& options, std::ostream* progress, const Screen& screen,
                        const std::stop_token& stop);

// Sends a log to the server as a run; `progress` may be null.
void import_log(Client& client, const ImportOptions& options, std::ostream* progress, const Screen& screen,
                const std::stop_token& stop);

// The exit code follows the verdict.
ExitCode diagnose_run(Client& client, const DoctorOptions& options, const Screen& screen);

}  // namespace scalewatch::cli
