#include "server/cli/views/admin.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "server/cli/user.h"
#include "server/history/maintenance.h"

namespace scalewatch::cli {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFooter =
    "All but reload and token work on the data folder, on the server's machine: whoever may read it may copy it, and they need "
    "no "
    "server. stats, backup\n"
    "and verify run beside a server and never hold it up; compact and verify --repair need it stopped, for they take the\n"
    "folder's lock. To go back to a copy: stop the server, put it in the folder as history.db in place of history.db* and "
    "start.";

constexpr const char* kVerifyFooter =
    "Exit codes: 0 all is well, 1 damage was found and repaired, 2 damage is left (some can't be mended), 3 it could not be "
    "read.\n"
    "--json: {reports, stretches, chunks, records, faults_found, faults_left, faults: [{what, repair}]}, repair empty where\n"
    "nothing was done.";

std::string bytes(std::uint64_t value) {
  constexpr double kUnit = 1024;
  if (value < 1024) return fmt::format("{} B", value);
  double amount = static_cast<double>(value) / kUnit;
  const char* unit = "KiB";
  for (const char* larger : {"MiB", "GiB", "TiB"}) {
    if (amount < kUnit) break;
    amount /= kUnit;
    unit = larger;
  }
  return fmt::format("{:.1f} {}", amount, unit);
}

// A line on a terminal, drawn over a few times a second.
history::Progress progress(const char* what, const Screen& screen, const std::stop_token& stop) {
  return [what, &screen, stop, shown = std::chrono::steady_clock::time_point()](double share) mutable {
    const auto now = std::chrono::steady_clock::now();
    if (screen.err != nullptr && screen.err_terminal && (share >= 1 || now - shown > std::chrono::milliseconds(200))) {
      shown = now;
      *screen.err << fmt::format("\r{} {:3.0f}%", what, share * 100) << (share >= 1 ? "\r\033[K" : "") << std::flush;
    }
    return !stop.stop_requested();
  };
}

ExitCode show_stats(const std::string& folder, const Screen& screen) {
  const auto stats = history::folder_stats(folder);
  if (screen.json) {
    screen.out << Json{{"schema_version", stats.schema_version},
                       {"file_bytes", stats.file_bytes},
                       {"log_bytes", stats.log_bytes},
                       {"free_bytes", stats.free_bytes},
                       {"runs", stats.runs},
                       {"running", stats.running},
                       {"streams", stats.streams},
                       {"reports", stats.reports},
                       {"payloads", stats.payloads},
                       {"stretches", stats.stretches},
                       {"thinned", stats.thinned},
                       {"reports_in_chunks", stats.in_chunks},
                       {"chunks", stats.chunks},
                       {"alerts", stats.alerts}}
                      .dump(2)
               << '\n';
    return kExitOk;
  }
  const auto line = [&](const char* what, const std::string& value) { screen.out << fmt::format("{:<12} {}\n", what, value); };
  line("file", fmt::format("{}, of which {} free; write-ahead log {}; schema {}", bytes(stats.file_bytes),
                           bytes(stats.free_bytes), bytes(stats.log_bytes), stats.schema_version));
  line("runs", fmt::format("{}, {} of them running; {} starts of ranks", stats.runs, stats.running, stats.streams));
  line("reports", fmt::format("{}: {} in chunks, {} as received", stats.reports, stats.in_chunks, stats.payloads));
  line("chunks", fmt::format("{} in {} stretches of attempts; of {} only summaries are left", stats.chunks,
                             stats.stretches - stats.thinned, stats.thinned));
  line("alerts", fmt::format("{}", stats.alerts));
  return kExitOk;
}

ExitCode back_up(const std::string& folder, const std::string& to, const Screen& screen, const std::stop_token& stop) {
  const auto size = history::back_up(folder, to, progress("copying", screen, stop));
  if (screen.json) {
    screen.out << Json{{"file", to}, {"bytes", size}}.dump(2) << '\n';
  } else {
    screen.out << fmt::format("{}: {}, whole and on disk\n", Screen::name(to), bytes(size));
  }
  return kExitOk;
}

ExitCode verify(const std::string& folder, bool repair, const Screen& screen, const std::stop_token& stop) {
  const auto found = history::verify_folder(folder, repair, progress("checking", screen, stop));
  const ExitCode code = found.faults_left > 0 ? kExitCritical : found.faults_found > 0 ? kExitWarning : kExitOk;
  if (screen.json) {
    Json faults = Json::array();
    for (const auto& fault : found.faults) faults.push_back({{"what", Screen::name(fault.what)}, {"repair", fault.repair}});
    screen.out << Json{{"reports", found.reports},   {"stretches", found.stretches},       {"chunks", found.chunks},
                       {"records", found.records},   {"faults_found", found.faults_found}, {"faults_left", found.faults_left},
                       {"faults", std::move(faults)}}
                      .dump(2)
               << '\n';
    return code;
  }
  for (const auto& fault : found.faults) {
    screen.out << screen.paint(Screen::name(fault.what), fault.repair.empty() ? text::Style::kCritical : text::Style::kWarning);
    if (!fault.repair.empty()) screen.out << " -- " << fault.repair;
    screen.out << '\n';
  }
  screen.out << fmt::format("{} reports, {} chunks with {} records, {} stretches: ", found.reports, found.chunks, found.records,
                            found.stretches);
  if (found.faults_found == 0) {
    screen.out << "all is well\n";
  } else {
    const char* const next =
        found.faults_left == 0 ? ""
        : repair ? "; the rest cannot be mended: what is asked of it is answered as damaged or gone, all else as ever"
                 : "; with the server stopped, verify --repair mends what can be";
    screen.out << fmt::format("{} damaged, {} repaired{}\n", found.faults_found, found.faults_found - found.faults_left, next);
  }
  return code;
}

ExitCode compact(const std::string& folder, const Screen& screen) {
  const auto result = history::compact_folder(folder);
  if (screen.json) {
    screen.out << Json{{"bytes_before", result.bytes_before}, {"bytes_after", result.bytes_after}}.dump(2) << '\n';
  } else {
    screen.out << fmt::format("{} before, {} now\n", bytes(result.bytes_before), bytes(result.bytes_after));
  }
  return kExitOk;
}

}  // namespace

void AdminCommands::add_to(CLI::App& app, Chosen& chosen) {
  auto* admin = app.add_subcommand("admin", "Look after a server: its data folder and its configuration");
  admin->fallthrough();
  admin->footer(kFooter);
  admin->require_subcommand(1);
  admin->add_option("--data-dir", folder_, "The server's data folder")->capture_default_str();
  const auto add = [&](const char* name, const char* description, auto work) {
    auto* command = admin->add_subcommand(name, description);
    command->fallthrough();
    command->callback([&chosen, work] {
      chosen.streams = true;  // Ctrl-C ends it cleanly
      chosen.local = work;
    });
    return command;
  };
  add("stats", "What the history holds and what it takes on disk",
      [this](const Screen& screen, const std::stop_token&) { return show_stats(folder_, screen); });
  add("backup", "Copy the history as it is at this moment to a file, beside a running server",
      [this](const Screen& screen, const std::stop_token& stop) { return back_up(folder_, to_, screen, stop); })
      ->add_option("TO", to_, "File to write; must not exist")
      ->required();
  auto* check =
      add("verify", "Read every chunk, summary and report, and say what is damaged",
          [this](const Screen& screen, const std::stop_token& stop) { return verify(folder_, repair_, screen, stop); });
  check->footer(kVerifyFooter);
  check->add_flag("--repair", repair_, "Make anew what can be; what can't is removed where that lets the rest be read");
  reload_.who = user();
  auto* reload = admin->add_subcommand("reload", "Let a running server read its configuration file again, as SIGHUP does");
  reload->fallthrough();
  reload->add_option("--by,--who", reload_.who, "Who does it (default: you)");
  reload->footer(
      "Rules and alerting are taken at once, the rest is listed and needs a restart. A file with a fault changes nothing: exit "
      "code 1.\n--json: ReloadConfigurationResponse of proto/scalewatch/v1.");
  reload->callback([this, &chosen] {
    chosen.action = [this](Client& client, const Screen& screen, const std::stop_token&) {
      return reload_configuration(client, reload_, screen);
    };
  });
  tokens_.add_to(*admin, chosen);
  add("compact", "Make chunks of all reports and give free space back; for ended runs, with the server stopped",
      [this](const Screen& screen, const std::stop_token&) { return compact(folder_, screen); });
}

}  // namespace scalewatch::cli
