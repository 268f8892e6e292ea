// The server is behind: what it is told waits, and so do its alerts.
#include <fmt/core.h>

#include "server/domain/rules/lag_rule.h"
#include "server/domain/rules/rules.h"

namespace scalewatch::domain {
namespace {

class IngestLag : public LagRule {
 public:
  [[nodiscard]] std::string_view name() const override { return "IngestLag"; }

  void on_lag(const ServerLag& lag, const RuleContext& context) override {
    const Finding* open = context.sink.find(name(), {});
    const TimeMs limit = context.thresholds.ingest_lag_ms;
    // A store that refuses is HistoryDegraded's: nothing is slow then.
    if (lag.history_refuses || lag.lag < limit) {
      if (open != nullptr && (lag.history_refuses || lag.lag < limit / 2)) context.sink.resolve(name(), {});
      return;
    }
    context.sink.raise(
        draft(fmt::format("the server is {:.1f} s behind: reports wait so long to be stored, and alerts with them",
                          static_cast<double>(lag.lag) / 1000),
              "lag", lag.lag, limit, context));
  }
};

}  // namespace

std::unique_ptr<Rule> make_ingest_lag() {
  return std::make_unique<IngestLag>();
}

}  // namespace scalewatch::domain
