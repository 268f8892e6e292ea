#include "server/fleet/fleet_alerts.h"

#include <algorithm>
#include <charconv>
#include <deque>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace scalewatch::fleet {

namespace {

using engine::Status;
using std::chrono::milliseconds;

constexpr milliseconds kListTimeout{3000};
constexpr int kMaxPages = 1000;  // of a server that holds many alerts of runs which are not its own

Status unreached(const Peer& peer) {
  return {Status::kUnavailable, "server " + peer.instance().name + " has the run and does not answer; try again"};
}

// A call that concerns one alert, made here or passed on.
template <class Request, class Response>
Status by_alert(Peer* peer, const Request& request, Response& response,
                grpc::Status (v1::Alerts::Stub::*there)(grpc::ClientContext*, const Request&, Response*)) {
  grpc::ClientContext context;
  peer->prepare(context, kForwarded, kCallTimeout);
  const grpc::Status status = (peer->alerts().*there)(&context, request, &response);
  return is_silence(status) ? unreached(*peer) : to_status(status);
}

std::string run_of(const std::string& alert_id) {
  return alert_id.substr(0, alert_id.find('/'));
}

// The same silence has another id on each server.
std::string likeness(const v1::Silence& silence) {
  std::string key = silence.created_by() + '\n' + silence.reason() + '\n' + (silence.ended_by().empty() ? "" : "ended");
  for (const std::string& matcher : silence.matchers()) key += '\n' + matcher;
  return key;
}

std::string token_of(const v1::Alert& alert) {
  return std::to_string(alert.finding().severity()) + "." + std::to_string(alert.fired_ms()) + "." + alert.id();
}

// Whether an alert comes after the page that ended with this token; one that no server gave is refused by the others.
bool follows(const v1::Alert& alert, const std::string& token) {
  if (token.empty()) return true;
  v1::Alert last;
  const auto first_dot = token.find('.');
  const auto second_dot = token.find('.', first_dot + 1);
  if (first_dot == std::string::npos || second_dot == std::string::npos) return false;
  std::int64_t severity = 0;
  std::int64_t fired_ms = 0;
  std::from_chars(token.data(), token.data() + first_dot, severity);
  std::from_chars(token.data() + first_dot + 1, token.data() + second_dot, fired_ms);
  last.mutable_finding()->set_severity(static_cast<v1::Severity>(severity));
  last.set_fired_ms(fired_ms);
  last.set_id(token.substr(second_dot + 1));
  return order_of(last) < order_of(alert);
}

}  // namespace

// ---- of this server -------------------------------------------------------------------------------------------------

OwnAlerts::OwnAlerts(engine::AlertsApi& all, engine::HistoryStore& store, std::string self)
    : all_(all), store_(store), self_(std::move(self)) {}

Status OwnAlerts::list_alerts(const v1::ListAlertsRequest& request, v1::ListAlertsResponse& response) {
  if (Status status = all_.list_alerts(request, response); !status.ok()) return status;
  std::map<std::string, bool> known;
  const auto is_own = [&](const std::string& run_uid) {
    const auto [it, fresh] = known.try_emplace(run_uid, true);
    if (!fresh) return it->second;
    const auto row = store_.find_run(run_uid);
    v1::GetRunResponse overview;
    if (!row || !overview.ParseFromString(row->overview)) return true;
    return it->second = overview.run().instance().empty() || overview.run().instance() == self_;
  };
  try {
    auto& alerts = *response.mutable_alerts();
    alerts.erase(std::remove_if(alerts.begin(), alerts.end(), [&](const v1::Alert& alert) { return !is_own(alert.run_uid()); }),
                 alerts.end());
    return {};
  } catch (const engine::StoreError& error) {
    return {error.retryable ? Status::kUnavailable : Status::kInternal, error.what()};
  }
}

Status OwnAlerts::acknowledge(const v1::AcknowledgeAlertRequest& request, v1::AcknowledgeAlertResponse& response) {
  return all_.acknowledge(request, response);
}
Status OwnAlerts::get_alert(const v1::GetAlertRequest& request, v1::GetAlertResponse& response) {
  return all_.get_alert(request, response);
}
Status OwnAlerts::create_silence(const v1::CreateSilenceRequest& request, v1::CreateSilenceResponse& response) {
  return all_.create_silence(request, response);
}
Status OwnAlerts::list_silences(const v1::ListSilencesRequest& request, v1::ListSilencesResponse& response) {
  return all_.list_silences(request, response);
}
Status OwnAlerts::end_silence(const v1::EndSilenceRequest& request, v1::EndSilenceResponse& response) {
  return all_.end_silence(request, response);
}
Status OwnAlerts::test_sinks(const v1::TestSinksRequest& request, v1::TestSinksResponse& response) {
  return all_.test_sinks(request, response);
}
Status OwnAlerts::list_dead_letters(const v1::ListDeadLettersRequest& request, v1::ListDeadLettersResponse& response) {
  return all_.list_dead_letters(request, response);
}
Status OwnAlerts::replay_dead_letters(const v1::ReplayDeadLettersRequest& request, v1::ReplayDeadLettersResponse& response) {
  return all_.replay_dead_letters(request, response);
}

// ---- of all ---------------------------------------------------------------------------------------------------------

FleetAlerts::FleetAlerts(Locator& locator, engine::AlertsApi& all, engine::HistoryStore& store, const std::string& self)
    : OwnAlerts(all, store, self), locator_(locator) {}

// Tokens of one server's list name the last alert told, and every server can go on after that.
Status FleetAlerts::list_alerts(const v1::ListAlertsRequest& request, v1::ListAlertsResponse& response) {
  if (!request.run().empty()) {
    Peer* peer = locator_.server_of(request.run());
    return peer == nullptr ? OwnAlerts::list_alerts(request, response)
                           : by_alert(peer, request, response, &v1::Alerts::Stub::ListAlerts);
  }
  struct Front {
    Peer* peer = nullptr;
    std::string token{};
    std::deque<v1::Alert> alerts{};
    bool over = false;
    int pages = 0;
  };
  std::vector<Front> fronts{{.token = request.page_token()}};
  for (Peer* peer : peers()) fronts.push_back({.peer = peer, .token = request.page_token()});
  Front& nobodys = fronts.emplace_back();
  nobodys.over = true;
  for (v1::Alert& alert : locator_.shared_only().alerts(request)) {
    if (follows(alert, request.page_token())) nobodys.alerts.push_back(std::move(alert));
  }
  const auto fill = [&](Front& front) -> Status {
    while (front.alerts.empty() && !front.over && front.pages++ < kMaxPages) {
      v1::ListAlertsRequest page = request;
      page.set_page_token(front.token);
      v1::ListAlertsResponse out;
      if (front.peer == nullptr) {
        if (Status status = OwnAlerts::list_alerts(page, out); !status.ok()) return status;
      } else {
        grpc::ClientContext context;
        front.peer->prepare(context, kForwarded, kListTimeout);
        const grpc::Status status = front.peer->alerts().ListAlerts(&context, page, &out);
        if (!status.ok() && !is_silence(status)) return to_status(status);
      }
      for (v1::Alert& alert : *out.mutable_alerts()) front.alerts.push_back(std::move(alert));
      front.token = out.next_page_token();
      front.over = front.token.empty();
    }
    return {};
  };
  const int size = request.page_size() == 0 ? 100 : request.page_size();
  while (true) {
    Front* best = nullptr;
    for (Front& front : fronts) {
      if (Status status = fill(front); !status.ok()) return status;
      if (front.alerts.empty()) continue;
      if (best == nullptr || order_of(front.alerts.front()) < order_of(best->alerts.front())) best = &front;
    }
    if (best == nullptr) return {};
    const bool again = response.alerts_size() > 0 && response.alerts().rbegin()->id() == best->alerts.front().id();
    if (!again && response.alerts_size() == size) {
      response.set_next_page_token(token_of(response.alerts(size - 1)));
      return {};
    }
    if (!again) *response.add_alerts() = std::move(best->alerts.front());
    best->alerts.pop_front();
  }
}

Status FleetAlerts::acknowledge(const v1::AcknowledgeAlertRequest& request, v1::AcknowledgeAlertResponse& response) {
  Peer* peer = request.id().empty() ? nullptr : locator_.server_of(run_of(request.id()));
  return peer == nullptr ? OwnAlerts::acknowledge(request, response)
                         : by_alert(peer, request, response, &v1::Alerts::Stub::AcknowledgeAlert);
}

Status FleetAlerts::get_alert(const v1::GetAlertRequest& request, v1::GetAlertResponse& response) {
  Peer* peer = request.id().empty() ? nullptr : locator_.server_of(run_of(request.id()));
  return peer == nullptr ? OwnAlerts::get_alert(request, response)
                         : by_alert(peer, request, response, &v1::Alerts::Stub::GetAlert);
}

Status FleetAlerts::create_silence(const v1::CreateSilenceRequest& request, v1::CreateSilenceResponse& response) {
  if (Status status = OwnAlerts::create_silence(request, response); !status.ok()) return status;
  for (const auto& answer : ask<v1::CreateSilenceResponse>(
           peers(), kForwarded, kCallTimeout, [&](Peer& peer, grpc::ClientContext* context, auto* out, auto done) {
             peer.alerts().async()->CreateSilence(context, &request, out, std::move(done));
           })) {
    if (!answer.status.ok()) {
      return {Status::kUnavailable, "server " + answer.peer->instance().name +
                                        " did not take the silence, others did: " + answer.status.error_message()};
    }
    response.set_alerts(response.alerts() + answer.response.alerts());
  }
  return {};
}

Status FleetAlerts::silences_of_all(const v1::ListSilencesRequest& request, std::vector<Kept>& all) {
  v1::ListSilencesResponse own;
  if (Status status = OwnAlerts::list_silences(request, own); !status.ok()) return status;
  for (v1::Silence& silence : *own.mutable_silences()) all.push_back({nullptr, std::move(silence)});
  for (auto& answer : ask<v1::ListSilencesResponse>(
           peers(), kForwarded, kListTimeout, [&](Peer& peer, grpc::ClientContext* context, auto* out, auto done) {
             peer.alerts().async()->ListSilences(context, &request, out, std::move(done));
           })) {
    if (!answer.status.ok()) continue;
    for (v1::Silence& silence : *answer.response.mutable_silences()) all.push_back({answer.peer, std::move(silence)});
  }
  return {};
}

Status FleetAlerts::list_silences(const v1::ListSilencesRequest& request, v1::ListSilencesResponse& response) {
  std::vector<Kept> all;
  if (Status status = silences_of_all(request, all); !status.ok()) return status;
  std::set<std::string> shown;
  for (Kept& kept : all) {
    if (shown.insert(likeness(kept.silence)).second) *response.add_silences() = std::move(kept.silence);
  }
  std::sort(response.mutable_silences()->begin(), response.mutable_silences()->end(),
            [](const v1::Silence& a, const v1::Silence& b) { return a.ends_ms() < b.ends_ms(); });
  return {};
}

Status FleetAlerts::end_silence(const v1::EndSilenceRequest& request, v1::EndSilenceResponse& response) {
  std::vector<Kept> all;
  if (Status status = silences_of_all({}, all); !status.ok()) return status;
  const auto meant = std::find_if(all.begin(), all.end(), [&](const Kept& kept) { return kept.silence.id() == request.id(); });
  if (meant == all.end()) return OwnAlerts::end_silence(request, response);  // it says what is wrong
  const std::string like = likeness(meant->silence);
  Status worst;
  for (const Kept& kept : all) {
    if (likeness(kept.silence) != like) continue;
    v1::EndSilenceRequest each = request;
    each.set_id(kept.silence.id());
    v1::EndSilenceResponse ended;
    Status status = kept.peer == nullptr ? OwnAlerts::end_silence(each, ended)
                                         : by_alert(kept.peer, each, ended, &v1::Alerts::Stub::EndSilence);
    if (!status.ok()) worst = std::move(status);
    if (kept.silence.id() == request.id()) response = std::move(ended);
  }
  return worst;
}

Status FleetAlerts::list_dead_letters(const v1::ListDeadLettersRequest& request, v1::ListDeadLettersResponse& response) {
  // "server:its own token"; this server first.
  const auto colon = request.page_token().find(':');
  std::vector<std::string> order{locator_.fleet().self().name};
  for (const Peer* peer : peers()) order.push_back(peer->instance().name);
  const std::string begins = colon == std::string::npos ? order.front() : request.page_token().substr(0, colon);
  auto at = std::find(order.begin(), order.end(), begins);
  if ((colon == std::string::npos && !request.page_token().empty()) || at == order.end()) {
    return {Status::kInvalidArgument, "page_token: not one that this list gave, or its server is gone; leave it empty"};
  }
  v1::ListDeadLettersRequest page = request;
  page.set_page_token(colon == std::string::npos ? std::string() : request.page_token().substr(colon + 1));
  while (true) {
    Peer* peer = locator_.fleet().peers().named(*at);
    const Status status = peer == nullptr ? OwnAlerts::list_dead_letters(page, response)
                                          : by_alert(peer, page, response, &v1::Alerts::Stub::ListDeadLetters);
    if (!status.ok() && (peer == nullptr || status.code != Status::kUnavailable)) return status;
    if (!response.next_page_token().empty()) {
      response.set_next_page_token(*at + ":" + response.next_page_token());
      return {};
    }
    if (++at == order.end()) return {};
    page.clear_page_token();
    if (response.letters().empty()) continue;
    response.set_next_page_token(*at + ":");
    return {};
  }
}

Status FleetAlerts::replay_dead_letters(const v1::ReplayDeadLettersRequest& request, v1::ReplayDeadLettersResponse& response) {
  const Status own = OwnAlerts::replay_dead_letters(request, response);
  if (!own.ok() && own.code != Status::kNotFound) return own;
  bool any = own.ok();
  for (const auto& answer : ask<v1::ReplayDeadLettersResponse>(
           peers(), kForwarded, kCallTimeout, [&](Peer& peer, grpc::ClientContext* context, auto* out, auto done) {
             peer.alerts().async()->ReplayDeadLetters(context, &request, out, std::move(done));
           })) {
    if (!answer.status.ok()) continue;
    any = true;
    response.set_replayed(response.replayed() + answer.response.replayed());
  }
  return any ? Status{} : own;
}

}  // namespace scalewatch::fleet
