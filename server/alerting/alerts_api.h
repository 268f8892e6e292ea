// Reading, acknowledging and silencing alerts, over the store, the engine and the book. Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "server/alerting/alert_book.h"
#include "server/alerting/sink_tester.h"
#include "server/engine/ports/alert_reader.h"
#include "server/engine/ports/read_api.h"

namespace scalewatch::alerting {

// As engine::Engine::acknowledge: `done` may be called from any thread, once.
using Acknowledge = std::function<void(const std::string& alert_id, const std::string& who, const std::string& comment,
                                       std::function<void(const engine::Status& status)> done)>;
// As engine::HistoryStore::find_run.
using FindRun = std::function<std::optional<engine::RunRow>(const std::string& name_or_uid)>;

class StoredAlerts : public engine::AlertsApi {
 public:
  // All that is given, and what the functions refer to, must outlive this. What waits for the store gives up after `patience`.
  StoredAlerts(engine::AlertReader& reader, FindRun find_run, Acknowledge acknowledge, AlertBook& book, SinkTester& tester,
               std::chrono::milliseconds patience = std::chrono::seconds(10));

  engine::Status list_alerts(const v1::ListAlertsRequest& request, v1::ListAlertsResponse& response) override;
  engine::Status acknowledge(const v1::AcknowledgeAlertRequest& request, v1::AcknowledgeAlertResponse& response) override;

  engine::Status get_alert(const v1::GetAlertRequest& request, v1::GetAlertResponse& response) override;
  engine::Status create_silence(const v1::CreateSilenceRequest& request, v1::CreateSilenceResponse& response) override;
  engine::Status end_silence(const v1::EndSilenceRequest& request, v1::EndSilenceResponse& response) override;
  engine::Status list_silences(const v1::ListSilencesRequest& request, v1::ListSilencesResponse& response) override;
  engine::Status test_sinks(const v1::TestSinksRequest& request, v1::TestSinksResponse& response) override;
  // In dead_letters.cc.
  engine::Status list_dead_letters(const v1::ListDeadLettersRequest& request, v1::ListDeadLettersResponse& response) override;
  engine::Status replay_dead_letters(const v1::ReplayDeadLettersRequest& request,
                                     v1::ReplayDeadLettersResponse& response) override;

  // Visits the open alerts (firing, acknowledged, silenced, pending), worst first, at most 10,000, until `visit` returns false.
  engine::Status visit_open(const engine::AlertReader::Filter& filter, const std::function<bool(const v1::Alert&)>& visit);
  // Checks and resolves the fields that lists and watches share. run: name or run_uid; empty = all.
  engine::Status make_filter(const std::string& run, int min_severity, engine::AlertReader::Filter& filter);

 private:
  // With its deliveries; absent, counted and logged, when its bytes are no alert.
  std::optional<v1::Alert> read(const engine::AlertRow& row);

  engine::AlertReader& reader_;
  const FindRun find_run_;
  const Acknowledge acknowledge_;
  AlertBook& book_;
  SinkTester& tester_;
  const std::chrono::milliseconds patience_;
};

}  // namespace scalewatch::alerting
