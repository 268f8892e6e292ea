// A server's part in a fleet, put together: with fleet.instances only.
#pragma once

#include <memory>

#include "server/alerting/alert_book.h"
#include "server/alerting/alerts_service.h"
#include "server/app/config.h"
#include "server/fleet/fleet.h"
#include "server/fleet/fleet_alerts.h"
#include "server/fleet/fleet_history.h"
#include "server/fleet/own_history.h"
#include "server/history/history_service.h"
#include "server/history/shared_history.h"
#include "server/history/sqlite_store.h"

namespace scalewatch::app {

class FleetWiring {
 public:
  // Null for a server that is alone. `shared` and `feed` may be null. All must outlive it. Throws std::runtime_error: a token
  // file or an authority's file that can't be read.
  static std::unique_ptr<FleetWiring> make(const Config& config, history::SqliteStore& store, history::SharedHistory* shared,
                                           history::SharedFeed* feed, alerting::AlertBook& book);

  fleet::Fleet& fleet() { return fleet_; }
  // What the services are made with; `history` and `alerts` are of this server alone.
  void serve(engine::HistoryApi& history, engine::AlertsApi& alerts);
  engine::HistoryApi& history() { return *serving_->history; }
  engine::AlertsApi& alerts() { return *serving_->alerts; }
  const history::ServiceFleet* history_service() { return &serving_->history_service; }
  const alerting::AlertsFleet* alerts_service() { return &serving_->alerts_service; }

 private:
  struct Serving {
    Serving(fleet::Fleet& fleet, engine::HistoryApi& local_history, engine::AlertsApi& local_alerts,
            engine::HistoryStore& store);
    fleet::Locator locator;
    std::unique_ptr<fleet::FleetHistory> history;
    std::unique_ptr<fleet::FleetAlerts> alerts;
    fleet::OwnHistory own_history;
    fleet::OwnAlerts own_alerts;
    history::ServiceFleet history_service;
    alerting::AlertsFleet alerts_service;
  };

  FleetWiring(const Config& config, history::SqliteStore& store, history::SharedHistory* shared, history::SharedFeed* feed,
              alerting::AlertBook& book);

  history::SqliteStore& store_;
  fleet::Peers peers_;
  fleet::Fleet fleet_;
  std::unique_ptr<Serving> serving_;
};

}  // namespace scalewatch::app
