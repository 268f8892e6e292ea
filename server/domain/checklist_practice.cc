// Checks of what people do around the numbers.
#include <fmt/format.h>

#include "server/domain/checklist_checks.h"

namespace scalewatch::domain::checklist {

Judgement log_losses(const ChecklistFacts& facts) {
  const auto* finding = found(facts, {"NonFiniteLoss"});
  if (finding != nullptr && finding->blame && finding->blame->where == "loss") return violated(*finding);
  if (!facts.loss) return unseen("no loss was reported", "the loss of every attempt");
  if (finding != nullptr) return holds("the loss was non-finite, but it did not begin there (" + finding->summary + ")");
  return holds(fmt::format("no non-finite loss was found in {} attempts", facts.attempts));
}

Judgement custom_functions(const ChecklistFacts& facts) {
  if (const auto* finding = found(facts, {"NonFiniteActivation"})) {
    return unseen("an activation went non-finite (" + finding->summary + "): whether a custom function made it is in the code",
                  "the outputs of custom functions as activations with their dtype");
  }
  return unseen("what a function casts is in the code", "the outputs of custom functions as activations with their dtype");
}

Judgement learning_rate(const ChecklistFacts& facts) {
  const auto* finding = found(facts, {"GradNormSpike", "LossSpike", "ScaleDrift"});
  if (finding != nullptr && finding->severity >= Severity::kWarning) return violated(*finding);
  if (!facts.grad_norm && !facts.loss && !sends(facts, Role::kGradient)) {
    return unseen("neither loss nor gradient norm was reported", "the loss and the gradient norm of every attempt");
  }
  return holds(fmt::format("no spike of {} in {} attempts",
                           facts.loss && facts.grad_norm ? "loss or gradient norm"
                           : facts.loss                  ? "the loss"
                                                         : "the gradient norm",
                           facts.attempts));
}

Judgement data(const ChecklistFacts& facts) {
  for (const auto& finding : facts.findings) {
    if (!finding.blame || (finding.blame->where != "input" && finding.blame->where != "loss")) continue;
    return violated(fmt::format("{} began in the {} at step {}: look at the batch of that step", finding.rule,
                                finding.blame->where, finding.blame->step));
  }
  if (!facts.loss) return unseen("no loss was reported", "the loss, and whether the batch held NaN or Inf (input_non_finite)");
  return holds("nothing non-finite began in a batch or in the loss");
}

Judgement fp32_first(const ChecklistFacts& facts) {
  if (wide(facts.compute_dtype)) return holds("this run is one in fp32");
  return unseen("one run does not tell of another", "the same training in fp32 under another name; then scalewatch compare");
}

Judgement autocast(const ChecklistFacts& /*facts*/) {
  return unseen("where autocast begins and ends is in the code",
                "activations and their gradients with dtypes show what ran in which format");
}

Judgement anomaly_mode(const ChecklistFacts& facts) {
  const auto label = facts.labels.find("anomaly_mode");
  if (label == facts.labels.end())
    return unseen("the trainer does not say", "a label anomaly_mode=on or off when the run starts");
  const bool on = label->second == "on" || label->second == "1" || label->second == "true";
  if (on) return violated("the run's label says that it is on");
  return holds("the run's label says " + label->second);
}

}  // namespace scalewatch::domain::checklist
