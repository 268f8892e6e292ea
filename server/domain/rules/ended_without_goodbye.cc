// Every rank went silent and none said goodbye: the run was killed, crashed, or lost its network.
#include <fmt/core.h>

#include "server/domain/rules/rules.h"

namespace scalewatch::domain {
namespace {

class EndedWithoutGoodbye : public StatelessRule<EndedWithoutGoodbye> {
 public:
  [[nodiscard]] std::string_view name() const override { return "EndedWithoutGoodbye"; }

  void on_liveness(const Liveness& liveness, const RuleContext& context) override {
    if (!all_silent(liveness, context.thresholds)) {
      context.sink.resolve(name(), {});
      return;
    }
    if (context.sink.find(name(), {}) != nullptr) return;
    Draft draft;
    draft.rule = name();
    draft.severity = Severity::kInfo;
    draft.first_attempt = draft.attempt = context.run.newest;
    draft.first_step = draft.step = context.run.last_step;
    TimeMs newest = 0;
    for (const Liveness::Seen& seen : liveness.ranks) newest = std::max(newest, seen.last_seen);
    const TimeMs silence = liveness.now - newest;
    draft.summary = liveness.ranks.size() == 1
                        ? fmt::format("the trainer is silent for {} s and did not say goodbye; the last attempt was {}",
                                      silence / 1000, context.run.newest)
                        : fmt::format("all {} ranks are silent for {} s and none said goodbye; the last attempt was {}",
                                      liveness.ranks.size(), silence / 1000, context.run.newest);
    draft.evidence = {{"silent", static_cast<double>(silence) / 1000, "seconds",
                       static_cast<double>(context.thresholds.rank_lost_after_ms) / 1000},
                      {"ranks", static_cast<double>(liveness.ranks.size()), "ranks", {}}};
    context.sink.raise(std::move(draft));
  }
};

}  // namespace

std::unique_ptr<Rule> make_ended_without_goodbye() {
  return std::make_unique<EndedWithoutGoodbye>();
}

}  // namespace scalewatch::domain
