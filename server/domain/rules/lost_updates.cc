// Narrow weights without a wider copy, and a learning rate under half a unit in their last place: updates round to nothing.
#include <fmt/core.h>

#include <cmath>

#include "server/domain/rules/tensor_rule.h"

namespace scalewatch::domain {
namespace {

class LostUpdates : public JoinedTensorRule {
 public:
  LostUpdates() : JoinedTensorRule(TensorRule::kLostUpdates, "LostUpdates") {}

  [[nodiscard]] bool only_tensor_faults() const override { return false; }
  void on_attempt(const ClosedAttempt& attempt, const RuleContext& context) override {
    peak_ = std::max(peak_, context.run.learning_rate().value_or(0));
    JoinedTensorRule::on_attempt(attempt, context);
  }
  void save(Writer& writer) override {
    writer(peak_);
    JoinedTensorRule::save(writer);
  }
  void load(Reader& reader) override {
    reader(peak_);
    JoinedTensorRule::load(reader);
  }

 protected:
  void describe(const GroupFaults& faults, const RuleContext& context, Draft& draft) const override {
    const double lr = context.run.learning_rate().value_or(0);
    const double times = std::exp2(faults.value());
    // The end of a schedule is meant to change little.
    const bool decayed = lr > 0 && lr < peak_ * context.thresholds.lost_updates_decayed;
    draft.severity = decayed ? Severity::kInfo : Severity::kWarning;
    draft.summary = fmt::format(
        "updates of {} are lost: the learning rate {} is {} times too small for weights of that size "
        "without an fp32 master copy",
        faults.text(), number_text(lr), fmt::format("{:.3g}", times));
    draft.evidence = {{"lr", lr, "", lr * times}, {"octaves_below", faults.value(), "octaves", {}}};
  }

 private:
  double peak_ = 0;  // largest learning rate seen
};

}  // namespace

std::unique_ptr<Rule> make_lost_updates() {
  return std::make_unique<LostUpdates>();
}

}  // namespace scalewatch::domain
