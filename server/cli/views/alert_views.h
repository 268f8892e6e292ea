// Views of alerts beside the list: one function a command. All throw CallError.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/cli/client.h"
#include "server/cli/screen.h"

namespace scalewatch::cli {

struct ShowAlertOptions {
  std::string id;
};

struct SilenceOptions {
  std::vector<std::string> matchers;
  std::string duration;  // as parse_span() reads it
  std::string reason;
  std::string who;
};

struct SilencesOptions {
  bool all = false;  // also ended ones
};

struct UnsilenceOptions {
  std::string id;
  std::string who;
};

struct TestSinksOptions {
  std::string sink;      // empty: all
  std::string severity;  // empty: critical
};

struct DeadLettersOptions {
  std::string sink;  // empty: all
  std::uint32_t limit = 50;
};

struct ReplayLettersOptions {
  std::string which;  // a sink's name, or a key, which has a slash; empty: all
  std::string who;
};

ExitCode show_alert(Client& client, const ShowAlertOptions& options, const Screen& screen);
ExitCode create_silence(Client& client, const SilenceOptions& options, const Screen& screen);
ExitCode list_silences(Client& client, const SilencesOptions& options, const Screen& screen);
ExitCode end_silence(Client& client, const UnsilenceOptions& options, const Screen& screen);
// kExitWarning when a sink did not take the test page.
ExitCode test_sinks(Client& client, const TestSinksOptions& options, const Screen& screen);

// Pages that a sink never took, newest first.
ExitCode list_dead_letters(Client& client, const DeadLettersOptions& options, const Screen& screen);
ExitCode replay_dead_letters(Client& client, const ReplayLettersOptions& options, const Screen& screen);

// "90s", "30m", "2h", "1d", "1h30m" in milliseconds; absent for anything else.
std::optional<std::int64_t> parse_span(std::string_view text);

// A line or some that say what keeps an alert quiet; nothing when nothing does.
void print_quiet(const v1::Alert& alert, const Screen& screen);

}  // namespace scalewatch::cli
