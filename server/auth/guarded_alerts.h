// Alerts as one caller may see and change them; every call that changes something is audited. Made for one call.
//
// Reading: alerts of runs that the caller may read. Acknowledging: of runs that it may operate. Silences concern whatever they
// match, so listing them takes read or operate for all runs, making and ending them operate for all; test pages and dead
// letters take admin.
#pragma once

#include <string>
#include <string_view>

#include "server/auth/gate.h"
#include "server/auth/guarded_history.h"
#include "server/engine/ports/read_api.h"

namespace scalewatch::auth {

class GuardedAlerts final : public engine::AlertsApi {
 public:
  // All must outlive it.
  GuardedAlerts(engine::AlertsApi& api, const Gate& gate, const Caller& caller, const NameOfRun& name_of)
      : api_(api), gate_(gate), caller_(caller), name_of_(name_of) {}

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

 private:
  // Notes what came of it, and hands it on.
  engine::Status audited(std::string_view call, const std::string& target, const std::string& who, engine::Status status) const;
  engine::Status check_acknowledge(const std::string& id);

  engine::AlertsApi& api_;
  const Gate& gate_;
  const Caller& caller_;
  const NameOfRun& name_of_;
};

// kPermissionDenied unless the caller may change what concerns all runs.
engine::Status check_operate_all(const Caller& caller);

// kPermissionDenied for a caller who may not see the alerts of a run, or of any for an empty name.
engine::Status check_watch(const Caller& caller, const NameOfRun& name_of, const std::string& run);

// What is left of an alert for a caller who may read its run: pages tell of other runs' alerts too.
void hide_others(const Caller& caller, v1::Alert& alert);

}  // namespace scalewatch::auth
