// What the engine needs of alerting: findings become alert and outbox rows of the same transaction as the inputs that caused
// them, and delivery is told when that transaction is durable.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "server/domain/finding.h"
#include "server/domain/observation.h"
#include "server/engine/ports/history_store.h"

namespace scalewatch::engine {

// What every alert of a run carries.
struct RunContext {
  std::string run_uid;
  std::string name;
  std::map<std::string, std::string> labels;

  struct Place {
    std::string host;
    std::string gpu_uuid;
  };
  // Where a rank runs; empty texts when that is not known. May be empty itself. To be called during stage() only.
  std::function<Place(domain::Rank)> place_of{};
};

class AlertOutbox {
 public:
  virtual ~AlertOutbox() = default;
  // Appends rows for the events, in order. Called on the run's strand, for many runs at once: thread-safe, never blocks.
  // Deterministic: the same events give the same keys.
  virtual void stage(const RunContext& run, const std::vector<domain::FindingEvent>& events, CommitBatch& batch) = 0;
  // Appends rows that resolve all alerts of the run that are open: what they were for can't be known any more. As stage().
  virtual void resolve_all(const RunContext& run, const std::string& why, CommitBatch& batch) = 0;
  // The run was read back, and `open` are its findings that are open. Appends rows that open an alert for each that has none:
  // whoever was told of it before is not told anew. With `settled` (nothing of the run is on its way any more) also rows that
  // resolve open alerts of other findings, so that open alerts and open findings are the same afterwards. Returns what people
  // had acknowledged and the findings don't know of: the alert was stored, and the input was not. The caller logs it again. As
  // stage().
  virtual std::vector<domain::Acknowledged> reconcile(const RunContext& run, const std::vector<domain::Finding>& open,
                                                      bool settled, CommitBatch& batch) = 0;
  // Rows that stage() made are durable. Called from the committer thread; never blocks.
  virtual void committed(const CommitBatch& batch) = 0;
};

}  // namespace scalewatch::engine
