#include <fmt/format.h>

#include <algorithm>

#include "server/cli/convert.h"
#include "server/cli/finding_text.h"
#include "server/cli/json.h"
#include "server/cli/paging.h"
#include "server/cli/text/units.h"
#include "server/cli/views/alert_views.h"
#include "server/cli/views/views.h"
#include "server/cli/words.h"

namespace scalewatch::cli {

namespace {

v1::AlertState parse_state(std::string_view word) {
  const auto& words = state_choices();
  return static_cast<v1::AlertState>(std::find(words.begin(), words.end(), word) - words.begin() + 1);
}

std::string_view state_word(v1::AlertState state) {
  switch (state) {
    case v1::ALERT_STATE_PENDING:
      return "pending";
    case v1::ALERT_STATE_FIRING:
      return "firing";
    case v1::ALERT_STATE_ACKNOWLEDGED:
      return "acknowledged";
    case v1::ALERT_STATE_SILENCED:
      return "silenced";
    case v1::ALERT_STATE_RESOLVED:
      return "resolved";
    default:
      return "-";
  }
}

// Deliveries that have not arrived: the reader must know that nobody was told.
void print_undelivered(const v1::Alert& alert, const Screen& screen) {
  for (const auto& delivery : alert.deliveries()) {
    if (delivery.delivered() || delivery.tries() == 0) continue;
    screen.out << screen.paint(fmt::format("  not delivered to {} ({}, {} {}): {}", Screen::name(delivery.sink()),
                                           Screen::name(delivery.transition()), delivery.tries(),
                                           delivery.tries() == 1 ? "try" : "tries", Screen::name(delivery.last_error())),
                               text::Style::kWarning)
               << '\n';
  }
}

// The id stands on its own line, whole, for it is what `alerts ack` takes.
void print_alert(const v1::Alert& alert, const Screen& screen) {
  const auto finding = from_proto(alert.finding());
  screen.out << screen.paint(severity_word(finding.severity), severity_style(finding.severity)) << ' '
             << screen.paint(Screen::name(finding.rule), text::Style::kBold) << ", "
             << text::truncate_middle(Screen::name(alert.run()), screen.width > 0 ? 32 : 0, screen.ascii) << ", "
             << state_word(alert.state());
  if (!alert.acknowledged_by().empty()) screen.out << " by " << Screen::name(alert.acknowledged_by());
  const bool resolved = alert.state() == v1::ALERT_STATE_RESOLVED && alert.resolved_ms() != 0;
  screen.out << ", " << text::ago(screen.now_ms - (resolved ? alert.resolved_ms() : alert.fired_ms())) << '\n';
  for (const auto& line : text::wrap(Screen::name(finding.summary), screen.width > 2 ? screen.width - 2 : 0)) {
    screen.out << "  " << line << '\n';
  }
  print_quiet(alert, screen);
  if (!alert.comment().empty()) screen.out << "  comment: " << Screen::name(alert.comment()) << '\n';
  print_undelivered(alert, screen);
  screen.out << "  " << screen.paint(Screen::name(alert.id()), text::Style::kDim) << '\n';
}

}  // namespace

void list_alerts(Client& client, const AlertsOptions& options, const Screen& screen) {
  v1::ListAlertsRequest request;
  request.set_run(options.run);
  request.set_min_severity(parse_severity(options.min_severity));
  for (const auto& state : options.states) request.add_states(parse_state(state));
  if (options.all && options.states.empty()) {
    for (int state = v1::ALERT_STATE_PENDING; state <= v1::ALERT_STATE_RESOLVED; ++state) {
      request.add_states(static_cast<v1::AlertState>(state));
    }
  }
  auto response = read_pages<v1::ListAlertsResponse>(
      request, options.limit, [&](const v1::ListAlertsRequest& r) { return client.list_alerts(r); },
      [](v1::ListAlertsResponse& r) { return r.mutable_alerts(); });
  if (!options.rule.empty()) {
    auto& alerts = *response.mutable_alerts();
    alerts.erase(std::remove_if(alerts.begin(), alerts.end(),
                                [&](const v1::Alert& alert) { return alert.finding().rule() != options.rule; }),
                 alerts.end());
  }
  if (screen.json) return print_json(response, screen.out);
  if (response.alerts().empty()) {
    const bool filtered =
        !options.rule.empty() || !options.states.empty() || !options.run.empty() || !options.min_severity.empty();
    screen.out << (filtered      ? "No alert matches: `scalewatch alerts --all` lists all.\n"
                   : options.all ? "No alerts.\n"
                                 : "No open alerts: --all lists resolved ones too.\n");
    return;
  }
  for (const auto& alert : response.alerts()) print_alert(alert, screen);
  if (!response.next_page_token().empty()) screen.out << "More alerts follow: raise --limit.\n";
}

void acknowledge_alert(Client& client, const AckOptions& options, const Screen& screen) {
  v1::AcknowledgeAlertRequest request;
  request.set_id(options.id);
  request.set_who(options.who);
  request.set_comment(options.comment);
  const auto response = client.acknowledge_alert(request);
  if (screen.json) return print_json(response, screen.out);
  print_alert(response.alert(), screen);
}

void watch_alerts(Client& client, const AlertsOptions& options, const Screen& screen, const std::stop_token& stop) {
  // A call with a deadline first: a stream to a server that isn't there would wait without end.
  v1::ListAlertsRequest probe;
  probe.set_page_size(1);
  probe.set_run(options.run);
  client.list_alerts(probe);
  v1::WatchAlertsRequest request;
  request.set_run(options.run);
  request.set_min_severity(parse_severity(options.min_severity));
  client.watch_alerts(request, stop, [&](const v1::WatchAlertsResponse& event) {
    if (screen.json) return print_json_line(event, screen.out);
    if (event.has_alert()) print_alert(event.alert(), screen);
    if (event.dropped() > 0)
      screen.out << fmt::format("({} left out: this reader was too slow)\n", text::plural(event.dropped(), "change"));
    screen.out << std::flush;
  });
}

}  // namespace scalewatch::cli
