// The store takes nothing of the run: what happens now is judged and shown, and not remembered until it does.
#include <fmt/core.h>

#include "server/domain/rules/lag_rule.h"
#include "server/domain/rules/rules.h"

namespace scalewatch::domain {
namespace {

class HistoryDegraded : public LagRule {
 public:
  [[nodiscard]] std::string_view name() const override { return "HistoryDegraded"; }

  void on_lag(const ServerLag& lag, const RuleContext& context) override {
    const Finding* open = context.sink.find(name(), {});
    if (!lag.history_refuses) {
      if (open != nullptr) context.sink.resolve(name(), {});
      return;
    }
    const TimeMs limit = context.thresholds.history_degraded_after_ms;
    if (open == nullptr && lag.lag < limit) return;
    context.sink.raise(draft(
        fmt::format("history has taken nothing of this run for {:.0f} s: {}", static_cast<double>(lag.lag) / 1000, lag.why),
        "not_stored_for", lag.lag, limit, context));
  }
};

}  // namespace

std::unique_ptr<Rule> make_history_degraded() {
  return std::make_unique<HistoryDegraded>();
}

}  // namespace scalewatch::domain
