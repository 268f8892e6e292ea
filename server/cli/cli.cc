#include "server/cli/cli.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <memory>
#include <sstream>
#include <string>

#include "server/cli/alert_commands.h"
#include "server/cli/client.h"
#include "server/cli/config_file.h"
#include "server/cli/credentials.h"
#include "server/cli/detail_commands.h"
#include "server/cli/options.h"
#include "server/cli/pager.h"
#include "server/cli/paging.h"
#include "server/cli/screen.h"
#include "server/cli/usage_error.h"
#include "server/cli/views/admin.h"
#include "server/cli/views/tensor_stat.h"
#include "server/cli/views/views.h"
#include "server/cli/words.h"
#include "server/logimport/format.h"

namespace scalewatch::cli {

namespace {

constexpr const char* kFooter =
    "Exit codes: 0 done (doctor: healthy or info), 1 doctor found a warning, 2 doctor found something critical,\n"
    "3 nothing could be read (no server, unknown run, time-out), 64 wrong use; checklist: 1 something is violated.\n"
    "Colours are off without a terminal, with --no-color or with NO_COLOR set. Defaults of --server, --token-file,\n"
    "--ca-file, --cert-file, --key-file, --color, --unicode, --pager, --time and --width may stand in "
    "$XDG_CONFIG_HOME/scalewatch/config.yaml (or the file that SCALEWATCH_CONFIG\n"
    "names) as lines of KEY: VALUE; an option outdoes the environment, which outdoes the file.";

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

// Empty when `server` is HOST:PORT (or [IPV6]:PORT), else what is wrong with it.
std::string check_server(const std::string& given) {
  const std::string server = without_scheme(given);
  const auto colon = server.rfind(':');
  const std::string wanted = " is not HOST:PORT, for example 127.0.0.1:7462 or [::1]:7462";
  if (colon == std::string::npos || colon == 0) return server + wanted;
  const std::string host = server.substr(0, colon);
  const bool bracketed = host.front() == '[' && host.back() == ']' && host.size() > 2;
  if (!bracketed && host.find_first_of(":/[] ") != std::string::npos) return server + wanted;
  int port = 0;
  const char* end = server.data() + server.size();
  const auto parsed = std::from_chars(server.data() + colon + 1, end, port);
  if (parsed.ec != std::errc() || parsed.ptr != end || port < 1 || port > 65535) return server + wanted;
  return {};
}

// Everything that can be said, and which command was.
struct CommandLine : Chosen {
  GlobalOptions global;
  RunsOptions runs;
  ShowOptions show;
  ScalerOptions scaler;
  TensorsOptions tensors;
  HistoryOptions history;
  TopOptions top;
  AlertsOptions alerts;
  AckOptions ack;
  AlertsOptions watch;
  TailOptions tail;
  ReplayOptions replay;
  DoctorOptions doctor;
  ImportOptions import_log;

  std::istream* in = nullptr;        // standard input
  std::ostream* progress = nullptr;  // where a progress bar may be drawn; null: nowhere
};

class Parser {
 public:
  explicit Parser(CommandLine& line) : line_(line) {
    app_.name("scalewatch");
    app_.footer(kFooter);
    app_.require_subcommand(1);
    app_.set_version_flag("--version", "scalewatch " SCALEWATCH_VERSION);
    auto& global = line_.global;
    app_.add_option("--server", global.server, "Address of scalewatchd, HOST:PORT; https:// before it: with TLS")
        ->envname("SCALEWATCH_SERVER")
        ->capture_default_str()
        ->check(check_server, "HOST:PORT");
    token_ = file_option("--token-file", "SCALEWATCH_TOKEN_FILE", global.credentials.token_file,
                         "File with the token to show (or SCALEWATCH_TOKEN holds it)");
    file_option("--ca-file", "SCALEWATCH_CA_FILE", global.credentials.ca_file,
                "PEM file of authorities that the server's certificate may be of; TLS (default: the system's)");
    file_option("--cert-file", "SCALEWATCH_CERT_FILE", global.credentials.cert_file,
                "PEM file of this side's certificate; TLS");
    file_option("--key-file", "SCALEWATCH_KEY_FILE", global.credentials.key_file, "PEM file of its key");
    app_.add_flag("--json", global.json, "Print JSON: the server's answer with the field names of proto/scalewatch/v1");
    color_ = app_.add_flag("--color,!--no-color", global.color, "Colours, where the output is a terminal");
    app_.add_flag("--ascii,!--unicode", global.ascii, "Draw plots with ASCII characters only");
    app_.add_flag("--pager,!--no-pager", global.pager, "Long output of a terminal goes through $PAGER, else less");
    app_.add_option_function<std::string>(
            "--time", [&global](const std::string& word) { global.time = parse_time_style(word); },
            "How moments are told: \"3 min ago\", or date and time, here or in UTC (default: relative)")
        ->check(CLI::IsMember({"relative", "absolute", "utc"}));
    app_.add_option("--width", global.width, "Columns to print within; 0 = no limit (default: the terminal's, else 80)")
        ->check(CLI::Range(0, 100'000));
    add_lists();
    add_run_views();
    add_tensor_views();
    add_alerts();
    add_replay();
    details_.add_to(app_, line_);
    admin_.add_to(app_, line_);
  }

  CLI::App& app() { return app_; }
  [[nodiscard]] bool color_said() const { return color_->count() > 0; }
  [[nodiscard]] bool token_file_said() const { return token_->count() > 0; }

 private:
  CLI::Option* file_option(const char* name, const char* variable, std::string& file, const char* description) {
    return app_.add_option(name, file, description)->envname(variable)->option_text("FILE");
  }

  CLI::App* command(CLI::App& parent, const std::string& name, const std::string& description) {
    auto* added = parent.add_subcommand(name, description);
    added->fallthrough();
    return added;
  }

  // What --json prints: a message of the API, so that nothing has to be said twice.
  static void prints(CLI::App* command, const std::string& message, const std::string& before = {}) {
    command->footer(before + (before.empty() ? "" : "\n") + "--json: " + message +
                    " of proto/scalewatch/v1. Fields without presence are always there, optional ones when they have a\n"
                    "value; 64-bit integers are strings; NaN and infinities are \"NaN\", \"Infinity\" and \"-Infinity\".");
  }

  template <class Options>
  void on(CLI::App* command, void (*view)(Client&, const Options&, const Screen&), const Options& options) {
    command->callback([this, view, &options] {
      line_.action = [view, &options](Client& client, const Screen& screen, const std::stop_token&) {
        view(client, options, screen);
        return kExitOk;
      };
    });
  }

  template <class Options>
  void on_stream(CLI::App* command, void (*view)(Client&, const Options&, const Screen&, const std::stop_token&),
                 const Options& options) {
    command->callback([this, view, &options] {
      line_.streams = true;
      line_.action = [view, &options](Client& client, const Screen& screen, const std::stop_token& stop) {
        view(client, options, screen, stop);
        return kExitOk;
      };
    });
  }

  static void add_run(CLI::App* command, std::string& run) {
    command->add_option("RUN", run, "Name or uid of the run")->required();
  }
  static void add_role(CLI::App* command, std::string& role) {
    command->add_option("--role", role, "Only tensors of this role")
        ->transform(role_meant)
        ->check(CLI::IsMember(role_choices()));
  }
  static void add_severity(CLI::App* command, std::string& severity) {
    command->add_option("--min-severity", severity, "Only what is at least this bad")->check(CLI::IsMember(severity_choices()));
  }
  static CLI::Option* add_segment(CLI::App* command, std::uint32_t& segment) {
    return command->add_option("--segment", segment, "Segment of the run, from 1 (default: the newest)");
  }
  static void add_range(CLI::App* command, RangeOptions& range) {
    add_segment(command, range.segment);
    command->add_option("--first", range.first, "First attempt (default: the beginning; top: the newest 100)");
    command->add_option("--last", range.last, "Last attempt, inclusive (default: the newest)");
  }
  static void add_limit(CLI::App* command, std::uint32_t& limit, const std::string& description,
                        std::uint32_t most = kMaxItems) {
    command->add_option("--limit", limit, description)->capture_default_str()->check(CLI::Range(std::uint32_t{1}, most));
  }

  void add_lists() {
    auto* runs = command(app_, "runs", "List runs, worst first");
    prints(runs, "ListRunsResponse",
           "Order: the worst open finding, then the worst of the newest segment, then the newest report.");
    runs->add_option("--name", line_.runs.name, "Only runs whose name contains this");
    runs->add_option("--status", line_.runs.status, "Only runs that are this")->check(CLI::IsMember(status_choices()));
    add_severity(runs, line_.runs.min_severity);
    add_limit(runs, line_.runs.limit, "Most runs to list");
    on(runs, show_runs, line_.runs);

    auto* tensors = command(app_, "tensors", "List a run's tensors in forward order, each with its newest record");
    add_run(tensors, line_.tensors.run);
    prints(tensors, "ListTensorsResponse");
    add_segment(tensors, line_.tensors.segment);
    tensors->add_option("--name", line_.tensors.name, "Only tensors whose name contains this");
    add_role(tensors, line_.tensors.role);
    add_limit(tensors, line_.tensors.limit, "Most tensors to list");
    on(tensors, show_tensors, line_.tensors);
  }

  void add_run_views() {
    auto* show = command(app_, "show", "Show a run on one screen: verdict, scale, loss, findings, ranks, tensors");
    add_run(show, line_.show.run);
    prints(show, "GetRunResponse");
    add_segment(show, line_.show.segment);
    on(show, show_run, line_.show);

    auto& options = line_.scaler;
    auto* scaler = command(app_, "scaler", "Show what a run's scaler did: scale over attempts, skips, changes");
    add_run(scaler, options.run);
    prints(scaler, "GetScalerHistoryResponse");
    scaler->add_option("--scaler", options.scaler, "Index of the scaler")->capture_default_str();
    scaler->add_option("--rank", options.rank, "As this rank saw it (default: the lowest that reported)");
    add_range(scaler, options.range);
    scaler->add_option("--limit", options.limit, "Newest changes to list; 0 = all")->capture_default_str();
    on(scaler, show_scaler, options);

    auto* tail = command(app_, "tail", "Print attempts and findings as they come, until Ctrl-C");
    add_run(tail, line_.tail.run);
    prints(tail, "one TailRunResponse a line,");
    on_stream(tail, tail_run, line_.tail);

    add_doctor();
    add_import();
  }

  void add_doctor() {
    auto& options = line_.doctor;
    auto* doctor = command(app_, "doctor", "Diagnose a log or a run: what is wrong, where it began, what to do");
    doctor->footer(kDoctorFooter);
    doctor->add_option("FILE", options.files, "Logs to diagnose, gzip too; - = standard input. Asks no server");
    auto* run = doctor->add_option("--run", options.run, "Name or uid of a run that the server knows, in place of files");
    add_segment(doctor, options.segment)->needs(run);
    doctor->add_option("--format", options.format, "Read only this format (default: all that the file holds)")
        ->check(CLI::IsMember(log_formats()))
        ->excludes(run);
    doctor->add_flag("--follow", options.follow, "Go on reading as the log grows, and print what changes, until Ctrl-C")
        ->excludes(run);
    doctor->callback([this] {
      if (line_.doctor.run.empty() == line_.doctor.files.empty()) {
        throw CLI::ValidationError("doctor", "needs either FILE... or --run RUN");
      }
      if (line_.doctor.follow && line_.doctor.files.size() > 1) {
        throw CLI::ValidationError("doctor", "--follow goes with one FILE");
      }
      line_.streams = line_.doctor.follow;
      if (line_.doctor.files.empty()) {
        line_.action = [this](Client& client, const Screen& screen, const std::stop_token&) {
          return diagnose_run(client, line_.doctor, screen);
        };
      } else {
        line_.local = [this](const Screen& screen, const std::stop_token& stop) {
          return diagnose_files(line_.doctor, line_.progress, screen, stop);
        };
      }
    });
  }

  void add_import() {
    auto& options = line_.import_log;
    auto* add = command(app_, "import", "Send a log to the server as a run: alerts, metrics and history without a client");
    add->footer(kImportFooter);
    add->add_option("FILE", options.file, "Log to send, gzip too; - = standard input")->required();
    add->add_option("--run", options.run, "Name that the run gets")->required();
    add->add_option("--format", options.format, "Read only this format (default: all that the file holds)")
        ->check(CLI::IsMember(log_formats()));
    add->add_flag("--follow", options.follow, "Go on sending as the log grows, until Ctrl-C");
    add->add_flag("--page", options.page, "Tell sinks of what is found; without --follow it is only recorded");
    add->callback([this] {
      line_.streams = true;
      line_.action = [this](Client& client, const Screen& screen, const std::stop_token& stop) {
        import_log(client, line_.import_log, line_.progress, screen, stop);
        return kExitOk;
      };
    });
  }

  void add_tensor_views() {
    auto& options = line_.history;
    auto* history = command(app_, "history", "Show one tensor over attempts");
    add_run(history, options.run);
    prints(history, "GetTensorHistoryResponse");
    history->add_option("TENSOR", options.tensor, "Name of the tensor")->required();
    add_role(history, options.role);
    history->add_option("--rank", options.rank, "Records of this rank only (default: all ranks merged)");
    add_range(history, options.range);
    history->add_option("--points", options.points, "Points to read; attempts are merged to fit, extremes kept")
        ->capture_default_str()
        ->check(CLI::Range(std::uint32_t{1}, std::uint32_t{10'000}));
    history->add_option("--stat", options.stat, "Statistic to draw")
        ->capture_default_str()
        ->check(CLI::IsMember(stat_choices()));
    on(history, show_history, options);

    auto* top = command(app_, "top", "List the tensors that lead by one statistic");
    add_run(top, line_.top.run);
    prints(top, "TopTensorsResponse");
    top->add_option("--by", line_.top.by, "Statistic to order by; nan counts NaN and Inf")
        ->capture_default_str()
        ->transform([](const std::string& word) { return word == "nonfinite" ? std::string("nan") : word; })
        ->check(CLI::IsMember(by_choices()));
    add_role(top, line_.top.role);
    add_range(top, line_.top.range);
    add_limit(top, line_.top.limit, "Most tensors to list", kMaxPage);
    on(top, show_top, line_.top);
  }

  void add_replay() {
    auto& options = line_.replay;
    auto* replay = command(app_, "replay", "Show what a loss scaler does on given found_inf; asks no server");
    replay->footer(kReplayFooter);
    replay->add_option("TRACE", options.trace, "CSV file with columns step and found_inf; - = standard input")->required();
    replay->add_option("--policy", options.policy, "Scaler to replay, in place of the one that the trace's # line names");
    replay->add_option("--set", options.settings, "Parameter of the scaler as KEY=VALUE; may be repeated")
        ->allow_extra_args(false);
    replay->add_option("SETTINGS", options.more, "More parameters as KEY=VALUE");
    replay->callback([this] {
      line_.local = [this](const Screen& screen, const std::stop_token&) {
        replay_trace(line_.replay, *line_.in, screen);
        return kExitOk;
      };
    });
  }

  void add_alerts() {
    auto* alerts = command(app_, "alerts", "List alerts, worst first; show, acknowledge, silence, watch or test them");
    alerts->require_subcommand(0, 1);
    prints(alerts, "ListAlertsResponse");
    alerts->add_option("--run", line_.alerts.run, "Only alerts of this run");
    add_severity(alerts, line_.alerts.min_severity);
    alerts->add_option("--state", line_.alerts.states, "Only alerts in this state; may be repeated")
        ->allow_extra_args(false)
        ->check(CLI::IsMember(state_choices()));
    alerts->add_option("--rule", line_.alerts.rule, "Only alerts of this rule");
    alerts->add_flag("--all", line_.alerts.all, "Resolved ones too");
    add_limit(alerts, line_.alerts.limit, "Most alerts to list");
    alerts->callback([this] {
      // A nested command's own callback runs before this one.
      if (line_.action) return;
      line_.action = [this](Client& client, const Screen& screen, const std::stop_token&) {
        list_alerts(client, line_.alerts, screen);
        return kExitOk;
      };
    });

    auto* ack = command(*alerts, "ack", "Say that somebody is on it");
    prints(ack, "AcknowledgeAlertResponse");
    ack->add_option("ID", line_.ack.id, "Id of the alert, as `alerts` prints it")->required();
    ack->add_option("--who", line_.ack.who, "Who is on it")->required();
    ack->add_option("--comment", line_.ack.comment, "What they say");
    on(ack, acknowledge_alert, line_.ack);

    alert_commands_.add_to(*alerts, line_);

    auto* watch = command(*alerts, "watch", "Print firing alerts, then every change, until Ctrl-C");
    prints(watch, "one WatchAlertsResponse a line,");
    watch->add_option("--run", line_.watch.run, "Only alerts of this run");
    add_severity(watch, line_.watch.min_severity);
    on_stream(watch, watch_alerts, line_.watch);
  }

  CommandLine& line_;
  CLI::Option* color_ = nullptr;
  CLI::Option* token_ = nullptr;
  DetailCommands details_;
  AdminCommands admin_;
  AlertCommands alert_commands_;
  CLI::App app_{"Tells how mixed-precision training runs are doing, from what scalewatchd knows."};
};

Screen screen_for(const GlobalOptions& options, const Environment& env) {
  const char* no_color = std::getenv("NO_COLOR");
  const bool refused = no_color != nullptr && *no_color != '\0' && !options.color_said;
  return {env.out,
          options.width.value_or(env.width),
          env.terminal && options.color && !options.json && !refused,
          options.ascii,
          options.json,
          env.now_ms,
          &env.err,
          env.err_terminal,
          env.terminal,
          options.time};
}

int perform(CommandLine& line, const Environment& env) {
  std::stop_token stop;
  if (line.streams && env.interrupt) stop = env.interrupt();
  if (line.local) return line.local(screen_for(line.global, env), stop);
  Client client(line.global.server, line.global.credentials, stop);
  try {
    return line.action(client, screen_for(line.global, env), stop);
  } catch (const CallError&) {
    if (!stop.stop_requested()) throw;
    return kExitOk;  // a call that was cut short because the command was asked to end
  }
}

// The same, with output that is longer than the terminal in a pager.
int perform_paged(CommandLine& line, const Environment& env, const std::string& pager) {
  PagedOutput paged(env.out, pager, env.rows);
  std::ostream out(&paged);
  Environment around{out, env.err, env.terminal, env.width, env.now_ms, env.interrupt, env.in, env.err_terminal};
  int code = kExitOk;
  try {
    code = perform(line, around);
  } catch (const CallError&) {
    if (!paged.gone()) throw;  // else the reader has seen enough
  }
  if (!paged.finish())
    throw CallError("the pager could not be run: " + names::escape(pager) + "; --no-pager goes without", kExitUsage);
  return code;
}

// What the parser prints, its long lines broken under where their description begins.
void print_help(const std::string& help, int width, std::ostream& out) {
  constexpr std::size_t kColumn = 30;  // of descriptions, as CLI11 sets them
  std::istringstream lines(help);
  constexpr std::size_t kFull = 90;  // a line of a footer that is as long goes on in the next one
  std::string next;
  for (std::string line; std::getline(lines, line);) {
    while (line.size() >= kFull && line.front() != ' ' && lines.peek() != '\n' && lines.peek() != '-' &&
           std::getline(lines, next)) {
      line += ' ' + next;
      if (next.size() < kFull) break;
    }
    const bool described = line.size() > kColumn && line[kColumn] != ' ' && line[kColumn - 1] == ' ' && line.starts_with("  ");
    const std::size_t indent = described ? kColumn : std::min(line.find_first_not_of(' '), line.size());
    const int room = width > 0 ? std::max(20, width - static_cast<int>(indent)) : 0;
    std::string before = line.substr(0, indent);
    for (const auto& part : text::wrap(line.substr(indent), room))
      out << std::exchange(before, std::string(indent, ' ')) << part << '\n';
    if (indent == line.size()) out << line << '\n';
  }
}

int execute(int argc, const char* const* argv, const Environment& env) {
  CommandLine line;
  line.in = env.in;
  if (env.config) {
    read_config(*env.config, line.global);
    if (const auto wrong = check_server(line.global.server); !wrong.empty()) {
      throw ConfigError(names::escape(env.config->path) + ": server: " + names::escape(wrong));
    }
  }
  line.progress = env.terminal ? &env.err : nullptr;
  Parser parser(line);
  try {
    parser.app().parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {
      std::ostringstream help;
      const int code = parser.app().exit(error, help, env.err);
      print_help(help.str(), line.global.width.value_or(env.width), env.out);
      return code;
    }
    env.err << "scalewatch: " << usage_error(parser.app(), error)
            << "\nscalewatch --help and scalewatch COMMAND --help say what goes.\n";
    return kExitUsage;
  }
  line.global.color_said = parser.color_said();
  // The environment outdoes the configuration file, as everywhere.
  const char* const token = std::getenv("SCALEWATCH_TOKEN");
  if (token != nullptr && !parser.token_file_said()) line.global.credentials.token = token;
  const auto pager = line.global.pager && !line.streams && env.terminal && env.rows > 0 ? pager_command() : std::string();
  return pager.empty() ? perform(line, env) : perform_paged(line, env, pager);
}

}  // namespace

int run(int argc, const char* const* argv, const Environment& env) {
  try {
    const int code = execute(argc, argv, env);
    env.out.flush();
    if (!env.out) {
      env.err << "scalewatch: the output could not be written: is the disk full?\n";
      return kExitNothing;
    }
    return code;
  } catch (const CallError& error) {
    env.out.flush();
    env.err << "scalewatch: " << error.what() << '\n';
    return error.exit_code();
  } catch (const CredentialsError& error) {
    env.err << "scalewatch: " << error.what() << '\n';
    return kExitUsage;
  } catch (const ConfigError& error) {
    env.err << "scalewatch: " << error.what() << '\n';
    return kExitUsage;
  } catch (const std::exception& error) {
    env.err << "scalewatch: " << names::escape(error.what()) << '\n';
    return kExitNothing;
  }
}

}  // namespace scalewatch::cli
