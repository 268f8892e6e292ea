// The Alerts API over the whole fleet, as FleetHistory is the History API.
//
// A silence is made on every server that is there, each with an id of its own; lists show such equal ones once, and the end of
// one ends them all. A server that was gone meanwhile does not have it. Sinks are tested, and the configuration is read again,
// by the server that is asked. Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/alerting/alerts_service.h"
#include "server/engine/ports/history_store.h"
#include "server/engine/ports/read_api.h"
#include "server/fleet/fleet_history.h"

namespace scalewatch::fleet {

[[nodiscard]] inline std::string run_of(const std::string& alert_id) {
  return alert_id.substr(0, alert_id.find('/'));
}

// The alerts of this server alone, as other servers ask for them: without those of runs that have moved away, with those that
// of its own runs only the shared history has.
class OwnAlerts : public engine::AlertsApi {
 public:
  // All must outlive this.
  OwnAlerts(Locator& locator, engine::AlertsApi& all, engine::HistoryStore& store);

  engine::Status list_alerts(const v1::ListAlertsRequest& request, v1::ListAlertsResponse& response) override;
  engine::Status acknowledge(const v1::AcknowledgeAlertRequest& request, v1::AcknowledgeAlertResponse& response) override;
  engine::Status get_alert(const v1::GetAlertRequest& request, v1::GetAlertResponse& response) override;
  engine::Status create_silence(const v1::CreateSilenceRequest& request, v1::CreateSilenceResponse& response) override;
  engine::Status end_silence(const v1::EndSilenceRequest& request, v1::EndSilenceResponse& response) override;
  engine::Status list_silences(const v1::ListSilencesRequest& request, v1::ListSilencesResponse& response) override;
  engine::Status test_sinks(const v1::TestSinksRequest& request, v1::TestSinksResponse& response) override;
  engine::Status list_dead_letters(const v1::ListDeadLettersRequest& request, v1::ListDeadLettersResponse& response) override;
  engine::Status replay_dead_letters(const v1::ReplayDeadLettersRequest& request,
                                     v1::ReplayDeadLettersResponse& response) override;

 protected:
  // Of all runs, merged: what is here, what these peers tell and what nobody of them does. `silent`: those that do not answer.
  engine::Status list_merged(const v1::ListAlertsRequest& request, const std::vector<Peer*>& peers, bool own,
                             v1::ListAlertsResponse& response, std::vector<Peer*>& silent);

  Locator& locator_;

 private:
  engine::Status list_here(const v1::ListAlertsRequest& request, v1::ListAlertsResponse& response);
  // What was asked of a run that the store does not have, while the shared history has it as this server's: it is here now.
  [[nodiscard]] bool brought(const engine::Status& status, const std::string& run);

  engine::AlertsApi& all_;
  engine::HistoryStore& store_;
};

class FleetAlerts final : public OwnAlerts {
 public:
  using OwnAlerts::OwnAlerts;

  engine::Status list_alerts(const v1::ListAlertsRequest& request, v1::ListAlertsResponse& response) override;
  engine::Status acknowledge(const v1::AcknowledgeAlertRequest& request, v1::AcknowledgeAlertResponse& response) override;
  engine::Status get_alert(const v1::GetAlertRequest& request, v1::GetAlertResponse& response) override;
  engine::Status create_silence(const v1::CreateSilenceRequest& request, v1::CreateSilenceResponse& response) override;
  engine::Status end_silence(const v1::EndSilenceRequest& request, v1::EndSilenceResponse& response) override;
  engine::Status list_silences(const v1::ListSilencesRequest& request, v1::ListSilencesResponse& response) override;
  // Server by server; newest first within each.
  engine::Status list_dead_letters(const v1::ListDeadLettersRequest& request, v1::ListDeadLettersResponse& response) override;
  engine::Status replay_dead_letters(const v1::ReplayDeadLettersRequest& request,
                                     v1::ReplayDeadLettersResponse& response) override;

 private:
  struct Kept {
    Peer* peer = nullptr;  // null: this server
    v1::Silence silence;
  };
  [[nodiscard]] std::vector<Peer*> peers() const { return locator_.fleet().peers().alive(); }
  // Appends what each server has; those of a server that does not answer are left out.
  engine::Status silences_of_all(const v1::ListSilencesRequest& request, std::vector<Kept>& all);
};

// What the other servers' WatchAlerts tell.
std::unique_ptr<alerting::OtherAlerts> watch_peers(const Peers& peers, const v1::WatchAlertsRequest& request);

}  // namespace scalewatch::fleet
