// From findings to alerts and to what is owed to each sink: the rows of one transaction.
//
// Stateless: every row follows from its event alone, so that a refold after a restart makes the same rows with the same keys,
// which the store already has. Findings only escalate, and one severity at a time; so a sink with threshold M
//   - gets "firing" for a finding that opens at M or above, or escalates to M;
//   - gets "escalated:<severity>" for an escalation beyond M (should a finding ever jump over M, this is the first it hears);
//   - gets "resolved" for a finding that ends at M or above: exactly those that were sent a firing.
// Thread-safe.
#pragma once

#include <functional>
#include <vector>

#include "server/alerting/sink_config.h"
#include "server/engine/ports/alert_outbox.h"

namespace scalewatch::alerting {

class AlertBook : public engine::AlertOutbox {
 public:
  // `on_committed` is called for every durable batch, from the committer thread; it must not block.
  AlertBook(const std::vector<SinkConfig>& sinks, std::function<void(const engine::CommitBatch&)> on_committed);

  void stage(const engine::RunContext& run, const std::vector<domain::FindingEvent>& events,
             engine::CommitBatch& batch) override;
  void committed(const engine::CommitBatch& batch) override;

 private:
  struct Target {
    std::string sink;
    domain::Severity min_severity;
  };
  const std::vector<Target> targets_;
  const std::function<void(const engine::CommitBatch&)> on_committed_;
};

}  // namespace scalewatch::alerting
