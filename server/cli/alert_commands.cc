#include "server/cli/alert_commands.h"

#include <string>

#include "server/cli/commands.h"
#include "server/cli/paging.h"
#include "server/cli/user.h"
#include "server/cli/views/views.h"
#include "server/cli/words.h"

namespace scalewatch::cli {

namespace {

constexpr const char* kSilenceFooter =
    "A matcher is NAME=VALUE, NAME!=VALUE, NAME=~REGEX or NAME!~REGEX; all must hold, and a regular expression takes the "
    "whole\n"
    "value. Names: run, run_uid, rule, severity, subject (scaler, tensor or tensor group), tensor (the blamed one), and the\n"
    "run's labels. Silenced alerts go on, are shown, and page nobody; what still fires when the silence ends pages then.\n"
    "--json: CreateSilenceResponse of proto/scalewatch/v1.";

}  // namespace

void AlertCommands::add_to(CLI::App& app, Chosen& chosen) {
  auto* alerts = add_command(app, "alerts", "List alerts, worst first; show, acknowledge, silence, watch or test them");
  alerts->require_subcommand(0, 1);
  add_list(*alerts, chosen);
  add_ack(*alerts, chosen);
  add_silences(*alerts, chosen);
  add_sinks(*alerts, chosen);
  add_watch(*alerts, chosen);
}

void AlertCommands::add_list(CLI::App& alerts, Chosen& chosen) {
  prints(&alerts, "ListAlertsResponse");
  alerts.add_option("--run", list_.run, "Only alerts of this run");
  add_severity(&alerts, list_.min_severity);
  alerts.add_option("--state", list_.states, "Only alerts in this state; may be repeated")
      ->allow_extra_args(false)
      ->check(CLI::IsMember(state_choices()));
  alerts.add_option("--rule", list_.rule, "Only alerts of this rule");
  alerts.add_flag("--all", list_.all, "Resolved ones too");
  add_limit(&alerts, list_.limit, "Most alerts to list", kMaxItems);
  alerts.callback([this, &chosen] {
    // A nested command's own callback runs before this one.
    if (chosen.action) return;
    chosen.action = [this](Client& client, const Screen& screen, const std::stop_token&) {
      list_alerts(client, list_, screen);
      return kExitOk;
    };
  });
}

void AlertCommands::add_ack(CLI::App& alerts, Chosen& chosen) {
  auto* ack = add_command(alerts, "ack", "Say that somebody is on it");
  prints(ack, "AcknowledgeAlertResponse");
  ack->add_option("ID", ack_.id, "Id of the alert, as `alerts` prints it")->required();
  ack->add_option("--who", ack_.who, "Who is on it")->required();
  ack->add_option("--comment", ack_.comment, "What they say");
  on(ack, chosen, acknowledge_alert, ack_);

  auto* show = add_command(alerts, "show", "Show one alert: what became of it, when, and by whom");
  on(show, chosen, show_alert, show_);
  show->add_option("ID", show_.id, "Id of the alert, as `alerts` prints it")->required();
  show->footer("--json: GetAlertResponse of proto/scalewatch/v1.");
}

void AlertCommands::add_silences(CLI::App& alerts, Chosen& chosen) {
  silence_.who = unsilence_.who = user();
  auto* silence = add_command(alerts, "silence", "Keep alerts from paging anybody for a while");
  on(silence, chosen, create_silence, silence_);
  silence->add_option("MATCHER", silence_.matchers, "Which alerts, such as run=nightly-7 or rule=~\"Scale.*\"")->required();
  silence->add_option("--for", silence_.duration, "How long, such as 30m, 2h or 1d")->required();
  silence->add_option("--reason", silence_.reason, "Why")->required();
  silence->add_option("--by,--who", silence_.who, "Who does it (default: you)");
  silence->footer(kSilenceFooter);

  auto* silences = add_command(alerts, "silences", "List silences, soonest end first");
  on(silences, chosen, list_silences, silences_);
  silences->add_flag("--all", silences_.all, "Also those that ended within the last 7 days");
  silences->footer("--json: ListSilencesResponse of proto/scalewatch/v1.");

  auto* unsilence = add_command(alerts, "unsilence", "End a silence now");
  on(unsilence, chosen, end_silence, unsilence_);
  unsilence->add_option("ID", unsilence_.id, "Id of the silence, as `alerts silences` prints it")->required();
  unsilence->add_option("--by,--who", unsilence_.who, "Who does it (default: you)");
  unsilence->footer("--json: EndSilenceResponse of proto/scalewatch/v1.");
}

void AlertCommands::add_sinks(CLI::App& alerts, Chosen& chosen) {
  auto* test = add_command(alerts, "test", "Send a marked test page through the sinks and say what they answer");
  on(test, chosen, test_sinks, test_);
  test->add_option("SINK,--sink", test_.sink, "Only this sink (default: all)");
  test->add_option("--severity", test_.severity, "Severity of the test page (default: critical)")
      ->check(CLI::IsMember(severity_choices()));
  test->footer("Exit code 1 when a sink did not take it.\n--json: TestSinksResponse of proto/scalewatch/v1.");

  auto* dead = add_command(alerts, "dead", "List pages that a sink never took, newest first");
  on(dead, chosen, list_dead_letters, dead_);
  dead->add_option("--sink", dead_.sink, "Only of this sink (default: all)");
  dead->add_option("--limit", dead_.limit, "At most so many")->check(CLI::Range(1, 10'000))->capture_default_str();
  dead->footer(
      "A page that its sink refuses, or that nobody answers for days, is given up and kept for 30 days, at most 10,000 of "
      "them.\n"
      "--json: ListDeadLettersResponse of proto/scalewatch/v1.");

  replay_.who = user();
  auto* replay = add_command(alerts, "replay", "Send pages that were given up again, under the keys that they had");
  on(replay, chosen, replay_dead_letters, replay_);
  replay->add_option("SINK|KEY", replay_.which, "A sink's name, or a page's key as `alerts dead` prints it (default: all)")
      ->check([](const std::string& which) { return which.empty() ? "is empty; leave it out to send all" : ""; });
  replay->add_option("--by,--who", replay_.who, "Who does it (default: you)");
  replay->footer(
      "A page whose alert has resolved meanwhile is followed by its resolve.\n"
      "--json: ReplayDeadLettersResponse of proto/scalewatch/v1.");
}

void AlertCommands::add_watch(CLI::App& alerts, Chosen& chosen) {
  auto* watch = add_command(alerts, "watch", "Print firing alerts, then every change, until Ctrl-C");
  prints(watch, "one WatchAlertsResponse a line,");
  watch->add_option("--run", watch_.run, "Only alerts of this run");
  add_severity(watch, watch_.min_severity);
  on_stream(watch, chosen, watch_alerts, watch_);
}

}  // namespace scalewatch::cli
