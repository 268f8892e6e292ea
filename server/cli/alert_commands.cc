#include "server/cli/alert_commands.h"

#include <string>

#include "server/cli/user.h"
#include "server/cli/words.h"

namespace scalewatch::cli {

namespace {

constexpr const char* kSilenceFooter =
    "A matcher is NAME=VALUE, NAME!=VALUE, NAME=~REGEX or NAME!~REGEX; all must hold, and a regular expression takes the "
    "whole\n"
    "value. Names: run, run_uid, rule, severity, subject (scaler, tensor or tensor group), tensor (the blamed one), and the\n"
    "run's labels. Silenced alerts go on, are shown, and page nobody; what still fires when the silence ends pages then.\n"
    "--json: CreateSilenceResponse of proto/scalewatch/v1.";

template <class Options>
CLI::App* command(CLI::App& alerts, Chosen& chosen, const std::string& name, const std::string& description,
                  ExitCode (*view)(Client&, const Options&, const Screen&), const Options& options) {
  auto* added = alerts.add_subcommand(name, description);
  added->fallthrough();
  added->callback([&chosen, view, &options] {
    chosen.action = [view, &options](Client& client, const Screen& screen, const std::stop_token&) {
      return view(client, options, screen);
    };
  });
  return added;
}

}  // namespace

void AlertCommands::add_to(CLI::App& alerts, Chosen& chosen) {
  auto* show = command(alerts, chosen, "show", "Show one alert: what became of it, when, and by whom", show_alert, show_);
  show->add_option("ID", show_.id, "Id of the alert, as `alerts` prints it")->required();
  show->footer("--json: GetAlertResponse of proto/scalewatch/v1.");

  silence_.who = unsilence_.who = user();
  auto* silence = command(alerts, chosen, "silence", "Keep alerts from paging anybody for a while", create_silence, silence_);
  silence->add_option("MATCHER", silence_.matchers, "Which alerts, such as run=nightly-7 or rule=~\"Scale.*\"")->required();
  silence->add_option("--for", silence_.duration, "How long, such as 30m, 2h or 1d")->required();
  silence->add_option("--reason", silence_.reason, "Why")->required();
  silence->add_option("--by,--who", silence_.who, "Who does it (default: you)");
  silence->footer(kSilenceFooter);

  auto* silences = command(alerts, chosen, "silences", "List silences, soonest end first", list_silences, silences_);
  silences->add_flag("--all", silences_.all, "Also those that ended within the last 7 days");
  silences->footer("--json: ListSilencesResponse of proto/scalewatch/v1.");

  auto* unsilence = command(alerts, chosen, "unsilence", "End a silence now", end_silence, unsilence_);
  unsilence->add_option("ID", unsilence_.id, "Id of the silence, as `alerts silences` prints it")->required();
  unsilence->add_option("--by,--who", unsilence_.who, "Who does it (default: you)");
  unsilence->footer("--json: EndSilenceResponse of proto/scalewatch/v1.");

  auto* test =
      command(alerts, chosen, "test", "Send a marked test page through the sinks and say what they answer", test_sinks, test_);
  test->add_option("SINK,--sink", test_.sink, "Only this sink (default: all)");
  test->add_option("--severity", test_.severity, "Severity of the test page (default: critical)")
      ->check(CLI::IsMember(severity_choices()));
  auto* dead = command(alerts, chosen, "dead", "List pages that a sink never took, newest first", list_dead_letters, dead_);
  dead->add_option("--sink", dead_.sink, "Only of this sink (default: all)");
  dead->add_option("--limit", dead_.limit, "At most so many")->check(CLI::Range(1, 10'000))->capture_default_str();
  dead->footer(
      "A page that its sink refuses, or that nobody answers for days, is given up and kept for 30 days, at most 10,000 of "
      "them.\n"
      "--json: ListDeadLettersResponse of proto/scalewatch/v1.");

  replay_.who = silence_.who;
  auto* replay = command(alerts, chosen, "replay", "Send pages that were given up again, under the keys that they had",
                         replay_dead_letters, replay_);
  replay->add_option("SINK|KEY", replay_.which, "A sink's name, or a page's key as `alerts dead` prints it (default: all)")
      ->check([](const std::string& which) { return which.empty() ? "is empty; leave it out to send all" : ""; });
  replay->add_option("--by,--who", replay_.who, "Who does it (default: you)");
  replay->footer(
      "A page whose alert has resolved meanwhile is followed by its resolve.\n"
      "--json: ReplayDeadLettersResponse of proto/scalewatch/v1.");

  test->footer("Exit code 1 when a sink did not take it.\n--json: TestSinksResponse of proto/scalewatch/v1.");
}

}  // namespace scalewatch::cli
