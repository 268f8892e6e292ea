// The alerts of one server of a fleet, as the others ask for them: without those of runs that have moved away, with those that
// of its own runs only the shared history has. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "server/engine/ports/history_store.h"
#include "server/engine/ports/read_api.h"
#include "server/fleet/fleet_history.h"

namespace scalewatch::fleet {

[[nodiscard]] inline std::string run_of(const std::string& alert_id) {
  return alert_id.substr(0, alert_id.find('/'));
}

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

  engine::AlertsApi& all_;
  engine::HistoryStore& store_;
};

}  // namespace scalewatch::fleet
