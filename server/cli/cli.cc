#include "server/cli/cli.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdlib>
#include <sstream>
#include <string>

#include "server/cli/alert_commands.h"
#include "server/cli/client.h"
#include "server/cli/config_file.h"
#include "server/cli/credentials.h"
#include "server/cli/detail_commands.h"
#include "server/cli/help_text.h"
#include "server/cli/log_commands.h"
#include "server/cli/options.h"
#include "server/cli/pager.h"
#include "server/cli/run_commands.h"
#include "server/cli/screen.h"
#include "server/cli/usage_error.h"
#include "server/cli/views/admin.h"

namespace scalewatch::cli {

namespace {

constexpr const char* kFooter =
    "Exit codes: 0 done (doctor: healthy or info), 1 doctor found a warning, 2 doctor found something critical,\n"
    "3 nothing could be read (no server, unknown run, time-out), 64 wrong use; checklist: 1 something is violated.\n"
    "Colours are off without a terminal, with --no-color or with NO_COLOR set. Defaults of --server, --token-file,\n"
    "--ca-file, --cert-file, --key-file, --color, --unicode, --pager, --time and --width may stand in "
    "$XDG_CONFIG_HOME/scalewatch/config.yaml (or the file that SCALEWATCH_CONFIG\n"
    "names) as lines of KEY: VALUE; an option outdoes the environment, which outdoes the file.";

// Empty when `server` is HOST:PORT (or [IPV6]:PORT), else what is wrong with it.
std::string check_server(const std::string& given) {
  const std::string server = without_scheme(given);
  const auto colon = server.rfind(':');
  const std::string wanted = " is not HOST:PORT, for example 127.0.0.1:7462 or [::1]:7462";
  if (server.find(',') != std::string::npos) {
    return server +
           ", perhaps of SCALEWATCH_SERVER, are several servers: --server takes one of them, and any of a fleet answers "
           "for all";
  }
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

// What goes for all commands, and which one was said.
struct CommandLine : Chosen {
  GlobalOptions global;
};

class Parser {
 public:
  Parser(CommandLine& line, const Environment& env) : line_(line), logs_(env.in, env.terminal ? &env.err : nullptr) {
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
    runs_.add_to(app_, line_);
    logs_.add_to(app_, line_);
    alerts_.add_to(app_, line_);
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

  CommandLine& line_;
  CLI::Option* color_ = nullptr;
  CLI::Option* token_ = nullptr;
  RunCommands runs_;
  LogCommands logs_;
  AlertCommands alerts_;
  DetailCommands details_;
  AdminCommands admin_;
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
  client.on_note([&env](const std::string& note) { env.err << "scalewatch: " << names::escape(note) << '\n'; });
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

int execute(int argc, const char* const* argv, const Environment& env) {
  CommandLine line;
  if (env.config) {
    read_config(*env.config, line.global);
    if (const auto wrong = check_server(line.global.server); !wrong.empty()) {
      throw ConfigError(names::escape(env.config->path) + ": server: " + names::escape(wrong));
    }
  }
  Parser parser(line, env);
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
