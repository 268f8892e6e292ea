// Checks of the scaler and of the order of the loop.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "server/domain/checklist_checks.h"
#include "server/domain/text.h"

namespace scalewatch::domain::checklist {

namespace {

constexpr const char* kUseClient = "run with the client library: a log shows no calls";

// Null when the policy is not known.
std::unique_ptr<Policy> policy_of(const ChecklistScaler& scaler) {
  return make_policy(scaler.policy, scaler.parameters);
}

std::string named(const ChecklistScaler& scaler) {
  return scaler.name.empty() ? "the scaler" : "scaler " + scaler.name;
}

}  // namespace

Judgement dynamic_scale(const ChecklistFacts& facts) {
  if (const auto* finding = found(facts, {"MissingScaler"})) return violated(*finding);
  if (facts.scalers.empty()) {
    if (facts.compute_dtype == DType::kBf16 || wide(facts.compute_dtype)) {
      return holds("no scaler is needed: the computation is not in fp16");
    }
    return unseen("no scaler was named", "the scaler's name, policy and parameters when the run starts (ScalerInfo)");
  }
  for (const auto& scaler : facts.scalers) {
    const auto policy = policy_of(scaler);
    if (!policy) {
      return unseen("the policy of " + named(scaler) + " is not known", "the policy's name and its parameters (ScalerInfo)");
    }
    if (!policy->dynamic()) {
      return violated(fmt::format("{} is {} with scale {}: it never follows the gradients", named(scaler), scaler.policy,
                                  scale_text(policy->init_scale())));
    }
  }
  const auto& first = facts.scalers.front();
  return holds(fmt::format("{} follows the policy {}{}", named(first), first.policy,
                           facts.scalers.size() > 1 ? fmt::format(", and {} more", facts.scalers.size() - 1) : ""));
}

Judgement step_then_update(const ChecklistFacts& facts) {
  if (const auto* finding = misuse(
          facts, {"unscale_twice", "unscale_after_step", "step_twice", "step_without_scale", "update_missing", "update_twice",
                  "update_without_checks", "out_of_order", "no_inf_checks", "no_gradients", "bad_scale"})) {
    return violated(*finding);
  }
  if (const auto* finding = found(facts, {"ScaleStuck", "StepFrozen"})) return violated(*finding);
  if (facts.from_log) return unseen("a log shows no calls", kUseClient);
  if (facts.scalers.empty() || facts.attempts == 0) {
    return unseen("no scaler was seen at work",
                  "the scaler's calls (loss_scaler.hpp reports them) or its scale before and after");
  }
  return holds(fmt::format("no call out of order, missing or repeated in {} attempts", facts.attempts));
}

Judgement clip_after_unscale(const ChecklistFacts& facts) {
  if (const auto* finding = misuse(facts, {"clip_before_unscale"})) return violated(*finding);
  constexpr std::uint64_t kEnough = 10;  // attempts that the rule behind it looks at
  if (!sends(facts, Role::kGradient) || facts.attempts < kEnough) {
    return unseen("the norm of the scaled gradients is not known",
                  "the gradients (role gradient) under the scale, at 10 attempts or more");
  }
  return holds("the norm of the scaled gradients was not held constant, as clipping under the scale would");
}

Judgement accumulation(const ChecklistFacts& facts) {
  if (const auto* finding = misuse(facts, {"scale_changed"})) return violated(*finding);
  std::uint32_t micro = 0;
  for (const auto& tensor : facts.tensors) micro = std::max(micro, tensor.micro_batches);
  if (micro == 0) {
    return unseen("no record says of how many micro-batches it is",
                  "gradients or activations of every micro-batch (micro_batches)");
  }
  if (micro == 1) return holds("one micro-batch an attempt: nothing is accumulated");
  return holds(
      fmt::format("{} micro-batches an attempt under one scale (that the loss is divided by {} can't be seen)", micro, micro));
}

Judgement restored(const ChecklistFacts& facts) {
  if (const auto* finding = misuse(facts, {"scaler_not_restored"})) return violated(*finding);
  for (const auto& finding : facts.findings) {
    if (finding.rule == "ScalePolicyMismatch" && finding.summary.find("resume") != std::string::npos) return violated(finding);
  }
  if (facts.segments < 2) {
    return unseen("the run was never resumed", "nothing: it shows when the run starts again under its name");
  }
  if (facts.scalers.empty()) return unseen("no scaler was named", "the scaler's scale at every attempt");
  return holds(fmt::format("{} resumes, and the scale went on", facts.segments - 1));
}

Judgement calm(const ChecklistFacts& facts) {
  if (const auto* finding = found(facts, {"NeverApplied", "ConsecutiveSkips", "FrequentSkippedSteps"}))
    return violated(*finding);
  if (facts.attempts == 0) return unseen("nothing was attempted yet", "the outcome of every attempt");
  std::uint64_t growths = 0;
  for (const auto& scaler : facts.scalers) growths += scaler.growths;
  return holds(fmt::format("{} of {} attempts were skipped; the scale grew {} times, and each growth may cost a skip",
                           facts.skipped, facts.attempts, growths));
}

Judgement restless(const ChecklistFacts& facts) {
  const auto* finding = found(facts, {"FrequentSkippedSteps", "ConsecutiveSkips", "ScaleDrift", "CalibrationTooLong"});
  if (finding == nullptr || finding->severity < Severity::kWarning) {
    if (facts.attempts == 0) return unseen("nothing was attempted yet", "the outcome of every attempt");
    return holds("the run is not restless");
  }
  constexpr double kInit = 0x1p15;
  constexpr std::int64_t kInterval = 5000;
  for (const auto& scaler : facts.scalers) {
    const auto policy = policy_of(scaler);
    if (!policy || !policy->dynamic()) continue;
    const auto interval = policy->growth_interval();
    if (policy->init_scale() <= kInit && interval.value_or(kInterval) >= kInterval) continue;
    return violated(fmt::format("{}: init_scale {}{} while {}", named(scaler), scale_text(policy->init_scale()),
                                interval ? fmt::format(", growth_interval {}", *interval) : "",
                                finding->rule + ": " + finding->summary));
  }
  return unseen("the run is restless (" + finding->rule + "), and the scaler's parameters are not known or calm already",
                "the scaler's policy with init_scale and growth_interval");
}

}  // namespace scalewatch::domain::checklist
