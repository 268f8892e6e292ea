// NaN or Inf in a parameter, a buffer or an optimizer's state. Open until all of them were seen finite again.
#include <fmt/core.h>

#include "server/domain/rules/rules.h"

namespace scalewatch::domain {
namespace {

class NonFiniteWeights : public StatelessRule<NonFiniteWeights> {
 public:
  [[nodiscard]] std::string_view name() const override { return "NonFiniteWeights"; }

  void on_attempt(const ClosedAttempt& attempt, const RuleContext& context) override {
    if (attempt.poisoned.empty()) {
      context.sink.resolve(name(), {});
      return;
    }
    const bool seen_now = std::any_of(attempt.joined.non_finite.begin(), attempt.joined.non_finite.end(),
                                      [](const TensorAt& tensor) { return is_state(tensor.role); });
    if (!seen_now) return;
    const auto first = std::min_element(attempt.poisoned.begin(), attempt.poisoned.end(), [](const auto& a, const auto& b) {
      return std::tuple(a.second.since, a.second.forward_index) < std::tuple(b.second.since, b.second.forward_index);
    });
    const Finding* open = context.sink.find(name(), {});
    Draft draft;
    draft.rule = name();
    draft.severity = Severity::kCritical;
    draft.first_attempt = open != nullptr ? open->first_attempt : first->second.since;
    draft.first_step = open != nullptr ? open->first_step : first->second.since_step;
    draft.attempt = attempt.attempt();
    draft.step = attempt.step();
    draft.ranks = ranks_to_name(first->second.ranks, attempt, context);
    double nan = 0;
    double inf = 0;
    double tensors = 0;
    for (const TensorAt& tensor : attempt.joined.non_finite) {
      if (!is_state(tensor.role)) continue;
      nan += static_cast<double>(tensor.nan);
      inf += static_cast<double>(tensor.pos_inf + tensor.neg_inf);
      ++tensors;
    }
    draft.summary = fmt::format(
        "{} {} is non-finite since step {}{}", role_text(first->first.first), first->first.second, first->second.since_step,
        attempt.poisoned.size() > 1
            ? fmt::format(", with {} more parameters, buffers or optimizer states", attempt.poisoned.size() - 1)
            : std::string());
    draft.evidence = {
        {"tensors_non_finite", tensors, "tensors", {}}, {"nan", nan, "elements", {}}, {"inf", inf, "elements", {}}};
    if (open == nullptr) draft.blame = attempt.blame;
    context.sink.raise(std::move(draft));
  }
};

}  // namespace

std::unique_ptr<Rule> make_non_finite_weights() {
  return std::make_unique<NonFiniteWeights>();
}

}  // namespace scalewatch::domain
