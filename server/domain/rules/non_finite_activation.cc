// NaN or +Inf in an activation, or -Inf in one that held none in its first samples: where it does from the start, it is a mask.
#include <fmt/core.h>

#include "server/domain/rules/rules.h"

namespace scalewatch::domain {
namespace {

class NonFiniteActivation : public PersistedRule<NonFiniteActivation> {
 public:
  [[nodiscard]] std::string_view name() const override { return "NonFiniteActivation"; }

  void on_attempt(const ClosedAttempt& attempt, const RuleContext& context) override {
    const TensorAt* first = nullptr;  // in the order that values flowed
    double tensors = 0;
    double nan = 0;
    double inf = 0;
    for (const TensorAt& tensor : attempt.joined.non_finite) {
      if (tensor.role != Role::kActivation) continue;
      if (tensor.nan + tensor.pos_inf == 0 && !tensor.neg_inf_is_new) continue;
      if (first == nullptr) first = &tensor;
      ++tensors;
      nan += static_cast<double>(tensor.nan);
      inf += static_cast<double>(tensor.pos_inf + tensor.neg_inf);
    }
    if (first == nullptr) return clean(attempt, context);
    if (attempts_ == 0) {
      first_attempt_ = attempt.attempt();
      first_step_ = attempt.step();
    }
    ++attempts_;
    clean_ = 0;
    Draft draft;
    draft.rule = name();
    draft.severity = Severity::kCritical;
    draft.first_attempt = first_attempt_;
    draft.first_step = first_step_;
    draft.attempt = attempt.attempt();
    draft.step = attempt.step();
    draft.ranks = ranks_to_name(first->ranks, attempt, context);
    const double seen = nan + inf;
    draft.summary =
        fmt::format("{} {} in the activation {}{}", number_text(seen), nan == 0 ? "Inf" : (inf == 0 ? "NaN" : "NaN and Inf"),
                    first->name, tensors > 1 ? fmt::format(" and {} after it", tensors - 1) : std::string());
    draft.evidence = {{"tensors_non_finite", tensors, "tensors", {}},
                      {"nan", nan, "elements", {}},
                      {"inf", inf, "elements", {}},
                      {"attempts", static_cast<double>(attempts_), "attempts", {}}};
    draft.blame = attempt.blame && attempt.blame->where != "backward" ? attempt.blame : std::optional(of(*first, attempt));
    if (context.run.from_log) {  // its lines are of whoever printed them, and count no elements
      draft.blame->ranks.clear();
      draft.blame->rank_of_origin.reset();
      draft.summary = fmt::format("{} in the activation {}{}", nan == 0 ? "Inf" : (inf == 0 ? "NaN" : "NaN and Inf"),
                                  first->name, tensors > 1 ? fmt::format(" and {} after it", tensors - 1) : std::string());
    }
    context.sink.raise(std::move(draft));
  }

  template <class A>
  void persist(A& a) {
    a(attempts_, clean_, first_attempt_, first_step_);
  }

 private:
  // Activations were looked at and are well: what was not measured says nothing.
  void clean(const ClosedAttempt& attempt, const RuleContext& context) {
    if (attempts_ == 0) return;
    const bool looked = std::any_of(attempt.joined.reports.begin(), attempt.joined.reports.end(),
                                    [](const RankReport& report) { return report.observed_activations; });
    if (!looked || ++clean_ < context.thresholds.event_resolve) return;
    attempts_ = 0;
    context.sink.resolve(name(), {});
  }

  static Blame of(const TensorAt& tensor, const ClosedAttempt& attempt) {
    Blame blame;
    blame.attempt = attempt.attempt();
    blame.step = attempt.step();
    blame.tensor = tensor.name;
    blame.role = tensor.role;
    blame.kind = tensor.nan == 0 ? "inf" : (tensor.pos_inf + tensor.neg_inf == 0 ? "nan" : "both");
    blame.where = "forward";
    blame.ranks = tensor.ranks;
    if (tensor.ranks.size() == 1) blame.rank_of_origin = tensor.ranks.front();
    blame.nan = tensor.nan;
    blame.inf = tensor.pos_inf + tensor.neg_inf;
    blame.tensors_non_finite = tensors_non_finite(attempt.joined);
    return blame;
  }

  std::uint32_t attempts_ = 0;  // with it, of this episode; 0 = none
  std::uint32_t clean_ = 0;     // attempts since, in which activations were looked at
  Attempt first_attempt_ = 0;
  std::int64_t first_step_ = 0;
};

}  // namespace

std::unique_ptr<Rule> make_non_finite_activation() {
  return std::make_unique<NonFiniteActivation>();
}

}  // namespace scalewatch::domain
