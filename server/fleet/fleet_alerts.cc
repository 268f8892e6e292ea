#include "server/fleet/fleet_alerts.h"

#include <algorithm>
#include <set>
#include <utility>

namespace scalewatch::fleet {

namespace {

using engine::Status;

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
  return is_silence(status) ? unreached(*peer) : to_status(*peer, status);
}

// The same silence has another id on each server.
std::string likeness(const v1::Silence& silence) {
  std::string key = silence.created_by() + '\n' + silence.reason() + '\n' + (silence.ended_by().empty() ? "" : "ended");
  for (const std::string& matcher : silence.matchers()) key += '\n' + matcher;
  return key;
}

}  // namespace

// Made anew without a server that turns out not to answer, as FleetHistory::list_runs.
Status FleetAlerts::list_alerts(const v1::ListAlertsRequest& request, v1::ListAlertsResponse& response) {
  if (!request.run().empty()) {
    Peer* peer = locator_.server_of(request.run());
    return peer == nullptr ? OwnAlerts::list_alerts(request, response)
                           : by_alert(peer, request, response, &v1::Alerts::Stub::ListAlerts);
  }
  std::vector<Peer*> telling = peers();
  while (true) {
    std::vector<Peer*> silent;
    if (Status status = list_merged(request, telling, false, response, silent); !status.ok()) return status;
    if (silent.empty()) return {.note = missing(locator_, telling, Listed::kAlerts)};
    std::erase_if(telling, [&](Peer* peer) { return std::find(silent.begin(), silent.end(), peer) != silent.end(); });
    response.Clear();
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
    if (answer.peer->refused(answer.status)) {
      return {Status::kFailedPrecondition, answer.peer->why_missing() + ": it did not take the silence, others did"};
    }
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
