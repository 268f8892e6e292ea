#include "server/auth/guarded_alerts.h"

#include <algorithm>
#include <string>

namespace scalewatch::auth {

using engine::Status;

namespace {

constexpr int kMostPages = 100;  // read for one that is shown

Status needs(const std::string& scope) {
  return {Status::kPermissionDenied, "this token has not the scope " + scope + ", which this call takes"};
}

std::string joined(const google::protobuf::RepeatedPtrField<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) out += (out.empty() ? "" : ", ") + text;
  return out;
}

}  // namespace

Status check_operate_all(const Caller& caller) {
  return caller.may_operate_all() ? Status{} : needs("operate");
}

Status check_watch(const Caller& caller, const NameOfRun& name_of, const std::string& run) {
  return run.empty() ? check_read_some(caller) : check_read(caller, name_of, run);
}

void hide_others(const Caller& caller, v1::Alert& alert) {
  auto& grouped = *alert.mutable_grouped();
  grouped.erase(std::remove_if(grouped.begin(), grouped.end(),
                               [&](const v1::GroupedAlert& other) { return !caller.may_read(other.run()); }),
                grouped.end());
}

Status GuardedAlerts::audited(std::string_view call, const std::string& target, const std::string& who, Status status) const {
  gate_.audit(caller_, call, target, who, status);
  return status;
}

// ---- reading --------------------------------------------------------------------------------------------------------

Status GuardedAlerts::list_alerts(const v1::ListAlertsRequest& request, v1::ListAlertsResponse& response) {
  if (caller_.may_read_all()) return api_.list_alerts(request, response);
  if (Status status = check_watch(caller_, name_of_, request.run()); !status.ok()) return status;
  v1::ListAlertsRequest next = request;
  Status status;
  for (int page = 0; page < kMostPages; ++page) {
    v1::ListAlertsResponse all;
    status = api_.list_alerts(next, all);
    if (!status.ok()) return status;
    for (v1::Alert& alert : *all.mutable_alerts()) {
      if (!caller_.may_read(alert.run())) continue;
      hide_others(caller_, alert);
      response.mutable_alerts()->Add(std::move(alert));
    }
    response.set_next_page_token(all.next_page_token());
    if (response.alerts_size() > 0 || all.next_page_token().empty()) break;
    next.set_page_token(all.next_page_token());
  }
  return status;
}

Status GuardedAlerts::get_alert(const v1::GetAlertRequest& request, v1::GetAlertResponse& response) {
  Status status = api_.get_alert(request, response);
  if (caller_.may_read_all()) return status;
  if (status.ok() && caller_.may_read(response.alert().run())) {
    hide_others(caller_, *response.mutable_alert());
    return status;
  }
  // The same for one of another run as for one that is not there.
  response.Clear();
  return status.ok() || status.code == Status::kNotFound
             ? Status{Status::kPermissionDenied, "no alert of that id is of a run that this token may read"}
             : status;
}

Status GuardedAlerts::list_silences(const v1::ListSilencesRequest& request, v1::ListSilencesResponse& response) {
  if (!caller_.may_read_all() && !caller_.may_operate_all()) return needs("read");
  return api_.list_silences(request, response);
}

Status GuardedAlerts::list_dead_letters(const v1::ListDeadLettersRequest& request, v1::ListDeadLettersResponse& response) {
  if (!caller_.may_admin()) return needs("admin");
  return api_.list_dead_letters(request, response);
}

// ---- changing -------------------------------------------------------------------------------------------------------

Status GuardedAlerts::check_acknowledge(const std::string& id) {
  if (caller_.may_operate_all()) return {};
  v1::GetAlertRequest request;
  request.set_id(id);
  v1::GetAlertResponse response;
  const Status status = api_.get_alert(request, response);
  if (status.ok() && caller_.may_operate(response.alert().run())) return {};
  if (!status.ok() && status.code != Status::kNotFound) return status;
  return {Status::kPermissionDenied, "no alert of that id is of a run that this token may operate"};
}

Status GuardedAlerts::acknowledge(const v1::AcknowledgeAlertRequest& request, v1::AcknowledgeAlertResponse& response) {
  Status status = check_acknowledge(request.id());
  if (status.ok()) status = api_.acknowledge(request, response);
  if (status.ok() && !caller_.may_read_all()) hide_others(caller_, *response.mutable_alert());
  return audited("AcknowledgeAlert", request.id(), request.who(), std::move(status));
}

Status GuardedAlerts::create_silence(const v1::CreateSilenceRequest& request, v1::CreateSilenceResponse& response) {
  Status status = check_operate_all(caller_);
  if (status.ok()) status = api_.create_silence(request, response);
  return audited("CreateSilence", joined(request.matchers()), request.who(), std::move(status));
}

Status GuardedAlerts::end_silence(const v1::EndSilenceRequest& request, v1::EndSilenceResponse& response) {
  Status status = check_operate_all(caller_);
  if (status.ok()) status = api_.end_silence(request, response);
  return audited("EndSilence", request.id(), request.who(), std::move(status));
}

Status GuardedAlerts::test_sinks(const v1::TestSinksRequest& request, v1::TestSinksResponse& response) {
  Status status = caller_.may_admin() ? Status{} : needs("admin");
  if (status.ok()) status = api_.test_sinks(request, response);
  return audited("TestSinks", request.sink(), {}, std::move(status));
}

Status GuardedAlerts::replay_dead_letters(const v1::ReplayDeadLettersRequest& request,
                                          v1::ReplayDeadLettersResponse& response) {
  Status status = caller_.may_admin() ? Status{} : needs("admin");
  if (status.ok()) status = api_.replay_dead_letters(request, response);
  return audited("ReplayDeadLetters", request.sink(), request.who(), std::move(status));
}

}  // namespace scalewatch::auth
