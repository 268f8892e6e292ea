// The store takes nothing: what happens now is judged and shown, and not remembered until it does.
#include <fmt/core.h>

#include "server/domain/rules/rules.h"

namespace scalewatch::domain {
namespace {

class HistoryDegraded : public StatelessRule {
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
    Draft draft;
    draft.rule = name();
    draft.severity = Severity::kWarning;
    draft.first_attempt = open != nullptr ? open->first_attempt : context.run.newest;
    draft.first_step = open != nullptr ? open->first_step : context.run.last_step;
    draft.attempt = context.run.newest;
    draft.step = context.run.last_step;
    draft.summary =
        fmt::format("the server's history has taken nothing for {:.0f} s: {}", static_cast<double>(lag.lag) / 1000, lag.why);
    draft.evidence = {{"not_stored_for", static_cast<double>(lag.lag) / 1000, "seconds", static_cast<double>(limit) / 1000}};
    context.sink.raise(std::move(draft));
  }
};

}  // namespace

std::unique_ptr<Rule> make_history_degraded() {
  return std::make_unique<HistoryDegraded>();
}

}  // namespace scalewatch::domain
