#include "server/fleet/own_alerts.h"

#include <algorithm>
#include <charconv>
#include <deque>
#include <map>
#include <utility>

#include "server/fleet/own_history.h"

namespace scalewatch::fleet {

using engine::Status;

namespace {

constexpr int kMaxPages = 1000;  // of a server that holds many alerts of runs which are not its own

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

OwnAlerts::OwnAlerts(Locator& locator, engine::AlertsApi& all, engine::HistoryStore& store)
    : locator_(locator), all_(all), store_(store) {}

Status OwnAlerts::list_alerts(const v1::ListAlertsRequest& request, v1::ListAlertsResponse& response) {
  if (request.run().empty()) {
    std::vector<Peer*> silent;
    Status status = list_merged(request, {}, true, response, silent);
    if (status.ok() && locator_.fleet().shared() != nullptr && !locator_.shared_only().whole()) status.note = kNotWhole;
    return status;
  }
  return ask_or_bring(locator_.fleet(), request.run(), response, [&] { return list_here(request, response); });
}

Status OwnAlerts::list_here(const v1::ListAlertsRequest& request, v1::ListAlertsResponse& response) {
  if (Status status = all_.list_alerts(request, response); !status.ok()) return status;
  std::map<std::string, bool> known;
  const auto is_own = [&](const std::string& run_uid) {
    const auto [it, fresh] = known.try_emplace(run_uid, true);
    if (!fresh) return it->second;
    const auto row = store_.find_run(run_uid);
    v1::GetRunResponse overview;
    if (!row || !overview.ParseFromString(row->overview)) return true;
    const std::string& owner = overview.run().instance();
    if (owner.empty() || owner == locator_.fleet().self().name) return true;
    // Who asks about a run of a server that is gone is told what is here of it.
    return it->second = !request.run().empty() && !locator_.fleet().is_there(owner);
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
  return ask_or_bring(locator_.fleet(), run_of(request.id()), response, [&] { return all_.acknowledge(request, response); });
}
Status OwnAlerts::get_alert(const v1::GetAlertRequest& request, v1::GetAlertResponse& response) {
  return ask_or_bring(locator_.fleet(), run_of(request.id()), response, [&] { return all_.get_alert(request, response); });
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

// Tokens of one server's list name the last alert told, and every server can go on after that.
Status OwnAlerts::list_merged(const v1::ListAlertsRequest& request, const std::vector<Peer*>& peers, bool own,
                              v1::ListAlertsResponse& response, std::vector<Peer*>& silent) {
  struct Front {
    Peer* peer = nullptr;
    std::string token{};
    std::deque<v1::Alert> alerts{};
    bool over = false;
    int pages = 0;
  };
  SharedOnly::Tellers tellers{{locator_.fleet().self().name}, own};
  std::vector<Front> fronts{{.token = request.page_token()}};
  for (Peer* peer : peers) {
    tellers.servers.insert(peer->instance().name);
    fronts.push_back({.peer = peer, .token = request.page_token()});
  }
  locator_.shared_only().refresh(own ? std::set<std::string>() : tellers.servers);
  const auto fill = [&](Front& front) -> Status {
    while (front.alerts.empty() && !front.over && front.pages++ < kMaxPages) {
      v1::ListAlertsRequest page = request;
      page.set_page_token(front.token);
      v1::ListAlertsResponse out;
      if (front.peer == nullptr) {
        if (Status status = list_here(page, out); !status.ok()) return status;
      } else {
        grpc::ClientContext context;
        front.peer->prepare(context, kForwarded, kListTimeout);
        const grpc::Status ended = front.peer->alerts().ListAlerts(&context, page, &out);
        Status status = to_status(*front.peer, ended);
        if (!tells_all(context)) tellers.servers.erase(front.peer->instance().name);
        if (is_silence(ended) || front.peer->refuses()) {
          silent.push_back(front.peer);
          out.Clear();
        } else if (!status.ok()) {
          return status;
        }
      }
      for (v1::Alert& alert : *out.mutable_alerts()) front.alerts.push_back(std::move(alert));
      front.token = out.next_page_token();
      front.over = front.token.empty();
    }
    return {};
  };
  for (Front& front : fronts) {
    if (Status status = fill(front); !status.ok()) return status;
  }
  // By now it is known who tells all of theirs.
  Front& nobodys = fronts.emplace_back();
  nobodys.over = true;
  for (v1::Alert& alert : locator_.shared_only().alerts(request, tellers)) {
    if (follows(alert, request.page_token())) nobodys.alerts.push_back(std::move(alert));
  }
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

}  // namespace scalewatch::fleet
