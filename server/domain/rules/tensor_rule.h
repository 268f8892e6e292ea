// A rule whose windows are kept on each rank (tensor_watch.h). What ranks hold against their tensors becomes one finding a
// group of tensors, the worst tensor first.
#pragma once

#include "server/domain/rules/rules.h"

namespace scalewatch::domain {

// One group over all ranks that are live or reported the attempt.
struct GroupFaults {
  std::uint64_t tensors = 0;
  std::uint64_t elements = 0;
  std::uint64_t most = 0;      // of them on one rank
  std::uint64_t measured = 0;  // elements of all its gradients
  bool all_zero = false;
  std::string limiting;  // gradient with the least headroom; empty: not known
  double headroom = 0;   // of it, octaves
  Attempt since = 0;
  std::int64_t since_step = 0;
  std::vector<Rank> ranks;  // rising
  std::vector<FaultyTensor> worst;

  [[nodiscard]] double share() const {
    return measured > 0 ? static_cast<double>(elements) / static_cast<double>(measured) : 0;
  }
  [[nodiscard]] double value() const { return worst.empty() ? 0 : worst.front().value; }
  // "the gradient of embed.weight", "the gradient of embed.weight and 3 more"
  [[nodiscard]] std::string text() const;
  // The word that follows it in a sentence.
  [[nodiscard]] const char* verb(const char* of_one, const char* of_many) const { return tensors > 1 ? of_many : of_one; }
};

// For sentences: three digits of a hundred, one digit after the point.
double percent(double share);
std::string octaves_text(double octaves);

class JoinedTensorRule : public PersistedRule<JoinedTensorRule> {
 public:
  void on_attempt(const ClosedAttempt& attempt, const RuleContext& context) override;
  [[nodiscard]] std::string_view name() const final { return name_; }
  [[nodiscard]] bool only_tensor_faults() const override { return true; }

  template <class A>
  void persist(A& a) {
    a(open_);
  }

 protected:
  JoinedTensorRule(TensorRule rule, std::string_view name) : rule_(rule), name_(name) {}
  // Fills severity, summary and evidence.
  virtual void describe(const GroupFaults& faults, const RuleContext& context, Draft& draft) const = 0;

 private:
  TensorRule rule_;
  std::string_view name_;
  std::vector<std::string> open_;  // subjects, rising; at most one a scaler and one more
};

}  // namespace scalewatch::domain
