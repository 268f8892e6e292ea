#include "server/cli/log_commands.h"

#include <stop_token>
#include <string>
#include <vector>

#include "server/cli/commands.h"
#include "server/cli/views/views.h"
#include "server/logimport/format.h"

namespace scalewatch::cli {

namespace {

constexpr const char* kReplayFooter =
    "The trace's first line may name the scaler: # POLICY key=value ... ; with --policy that line does not count, and\n"
    "without it --set changes single parameters. Other columns than step and found_inf are ignored; a found_inf above 0\n"
    "is true. Prints step, found_inf, scale_before, skipped, scale_after and note, and stops where the scaler would end\n"
    "the run: the note says why.\n"
    "--json: {policy, parameters, steps: [{step, found_inf, scale_before, skipped, scale_after, note}]}, note where there is "
    "one.";

constexpr const char* kDoctorFooter =
    "Finds the format by itself: what scalers print (Apex, DeepSpeed, Megatron, fairseq, Paddle, Colossal-AI, MindSpore),\n"
    "what trainers print, JSON lines, CSV, TensorBoard events, and lines of names and numbers. Prints a verdict, what\n"
    "happened at which line, the scale over attempts, where it began if the log names it, and what to do.\n"
    "Exit codes: 0 healthy or info, 1 warning, 2 critical, 3 nothing readable.\n"
    "--json: {format, verdict, headline, attempts: {seen, applied, skipped, unknown}, scale: {first, last, min}, findings:\n"
    "[{rule, severity, first_step, last_step, line, ranks, blamed, evidence: [{name, value, unit, limit}], advice:\n"
    "[{id, text, confidence}]}]}. What is not known is null; NaN and infinities are \"NaN\", \"Infinity\" and \"-Infinity\".";

constexpr const char* kImportFooter =
    "Reads the log as doctor does, and the server comes to the same findings. Each run that the log holds is a segment of\n"
    "its own; so is the whole log when it is sent again under the same name. A server that goes away is waited for a minute.\n"
    "--json: {run, run_uid, segment, runs, format, attempts, reports, refused, verdict}.";

std::vector<std::string> log_formats() {
  const auto names = logimport::format_names();
  return {names.begin(), names.end()};
}

}  // namespace

void LogCommands::add_to(CLI::App& app, Chosen& chosen) {
  add_doctor(app, chosen);
  add_import(app, chosen);
  add_replay(app, chosen);
}

void LogCommands::add_doctor(CLI::App& app, Chosen& chosen) {
  auto* doctor = add_command(app, "doctor", "Diagnose a log or a run: what is wrong, where it began, what to do");
  doctor->footer(kDoctorFooter);
  doctor->add_option("FILE", doctor_.files, "Logs to diagnose, gzip too; - = standard input. Asks no server");
  auto* run = doctor->add_option("--run", doctor_.run, "Name or uid of a run that the server knows, in place of files");
  add_segment(doctor, doctor_.segment)->needs(run);
  doctor->add_option("--format", doctor_.format, "Read only this format (default: all that the file holds)")
      ->check(CLI::IsMember(log_formats()))
      ->excludes(run);
  doctor->add_flag("--follow", doctor_.follow, "Go on reading as the log grows, and print what changes, until Ctrl-C")
      ->excludes(run);
  doctor->callback([this, &chosen] {
    if (doctor_.run.empty() == doctor_.files.empty()) {
      throw CLI::ValidationError("doctor", "needs either FILE... or --run RUN");
    }
    if (doctor_.follow && doctor_.files.size() > 1) {
      throw CLI::ValidationError("doctor", "--follow goes with one FILE");
    }
    chosen.streams = doctor_.follow;
    if (doctor_.files.empty()) {
      chosen.action = [this](Client& client, const Screen& screen, const std::stop_token&) {
        return diagnose_run(client, doctor_, screen);
      };
    } else {
      chosen.local = [this](const Screen& screen, const std::stop_token& stop) {
        return diagnose_files(doctor_, progress_, screen, stop);
      };
    }
  });
}

void LogCommands::add_import(CLI::App& app, Chosen& chosen) {
  auto* add = add_command(app, "import", "Send a log to the server as a run: alerts, metrics and history without a client");
  add->footer(kImportFooter);
  add->add_option("FILE", import_.file, "Log to send, gzip too; - = standard input")->required();
  add->add_option("--run", import_.run, "Name that the run gets")->required();
  add->add_option("--format", import_.format, "Read only this format (default: all that the file holds)")
      ->check(CLI::IsMember(log_formats()));
  add->add_flag("--follow", import_.follow, "Go on sending as the log grows, until Ctrl-C");
  add->add_flag("--page", import_.page, "Tell sinks of what is found; without --follow it is only recorded");
  add->callback([this, &chosen] {
    chosen.streams = true;
    chosen.action = [this](Client& client, const Screen& screen, const std::stop_token& stop) {
      import_log(client, import_, progress_, screen, stop);
      return kExitOk;
    };
  });
}

void LogCommands::add_replay(CLI::App& app, Chosen& chosen) {
  auto* replay = add_command(app, "replay", "Show what a loss scaler does on given found_inf; asks no server");
  replay->footer(kReplayFooter);
  replay->add_option("TRACE", replay_.trace, "CSV file with columns step and found_inf; - = standard input")->required();
  replay->add_option("--policy", replay_.policy, "Scaler to replay, in place of the one that the trace's # line names");
  replay->add_option("--set", replay_.settings, "Parameter of the scaler as KEY=VALUE; may be repeated")
      ->allow_extra_args(false);
  replay->add_option("SETTINGS", replay_.more, "More parameters as KEY=VALUE");
  replay->callback([this, &chosen] {
    chosen.local = [this](const Screen& screen, const std::stop_token&) {
      replay_trace(replay_, *in_, screen);
      return kExitOk;
    };
  });
}

}  // namespace scalewatch::cli
