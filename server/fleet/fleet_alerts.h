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
#include "server/fleet/own_alerts.h"

namespace scalewatch::fleet {

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
