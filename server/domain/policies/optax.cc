// optax's apply_if_finite: no scale; non-finite updates are rejected until more than max_consecutive_errors come in a row, and
// applied from there until a finite one. Parameter: max_consecutive_errors (optax has no default; 5 here, as in its examples).
#include "server/domain/policies/policies.h"

namespace scalewatch::domain {
namespace {

class OptaxPolicy : public Policy {
 public:
  explicit OptaxPolicy(ParameterReader& parameters) : Policy(1), most_(parameters.count({"max_consecutive_errors"}, 5, 0)) {}

  [[nodiscard]] bool dynamic() const override { return false; }
  [[nodiscard]] bool skips() const override { return state().overflows < most_; }

 protected:
  void next(PolicyState& state, bool found_inf) const override { state.overflows = found_inf ? state.overflows + 1 : 0; }

 private:
  std::int64_t most_;
};

}  // namespace

std::unique_ptr<Policy> make_optax_policy(ParameterReader& parameters) {
  return std::make_unique<OptaxPolicy>(parameters);
}

}  // namespace scalewatch::domain
