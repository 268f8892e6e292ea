// Reading and acknowledging alerts, over the store and the engine. Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "server/engine/ports/alert_reader.h"
#include "server/engine/ports/read_api.h"

namespace scalewatch::alerting {

// As engine::Engine::acknowledge: `done` may be called from any thread, once.
using Acknowledge = std::function<void(const std::string& alert_id, const std::string& who, const std::string& comment,
                                       std::function<void(const std::string& error, bool not_found)> done)>;
// As engine::HistoryStore::find_run.
using FindRun = std::function<std::optional<engine::RunRow>(const std::string& name_or_uid)>;

class StoredAlerts : public engine::AlertsApi {
 public:
  // `reader` and what the functions refer to must outlive this. acknowledge() gives up after `patience`.
  StoredAlerts(engine::AlertReader& reader, FindRun find_run, Acknowledge acknowledge,
               std::chrono::milliseconds patience = std::chrono::seconds(10));

  engine::Status list_alerts(const v1::ListAlertsRequest& request, v1::ListAlertsResponse& response) override;
  engine::Status acknowledge(const v1::AcknowledgeAlertRequest& request, v1::AcknowledgeAlertResponse& response) override;

  // Visits the open alerts (firing, acknowledged, silenced, pending), worst first, at most 10,000, until `visit` returns false.
  engine::Status visit_open(const engine::AlertReader::Filter& filter, const std::function<bool(const v1::Alert&)>& visit);
  // Checks and resolves the fields that lists and watches share. run: name or run_uid; empty = all.
  engine::Status make_filter(const std::string& run, int min_severity, engine::AlertReader::Filter& filter);

 private:
  v1::Alert read(const engine::AlertRow& row);  // with its deliveries

  engine::AlertReader& reader_;
  const FindRun find_run_;
  const Acknowledge acknowledge_;
  const std::chrono::milliseconds patience_;
};

}  // namespace scalewatch::alerting
