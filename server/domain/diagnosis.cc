#include "server/domain/diagnosis.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "server/domain/text.h"

namespace scalewatch::domain {
namespace {

// Causes before what comes of them: poisoned weights make every loss and gradient non-finite, those make skips, skips make the
// scale fall.
constexpr auto kCausality = std::to_array<std::string_view>({
    "NonFiniteWeights",     "NonFiniteApplied", "RankDisagreement",  "Misuse",
    "MissingScaler",        "NonFiniteLoss",    "ScaleVanished",     "NeverApplied",
    "ScaleStuck",           "ScaleAtMinimum",   "StepFrozen",        "ConsecutiveSkips",
    "ScaleCollapse",        "RankLost",         "RunStalled",        "ScalePolicyMismatch",
    "FrequentSkippedSteps", "ScaleRunaway",     "GradNormSpike",     "LossSpike",
    "ScaleDrift",           "LossUnchanged",    "NonFiniteGradient", "EndedWithoutGoodbye",
    "HistoryDegraded",      "IngestLag",        "StatsDropped",      "CalibrationTooLong",
});

std::size_t causality(const Finding& finding) {
  return static_cast<std::size_t>(std::find(kCausality.begin(), kCausality.end(), finding.rule) - kCausality.begin());
}

std::string counts(const RunFacts& facts) {
  std::string text = fmt::format("{} attempt{}, {} skipped", facts.attempts, facts.attempts == 1 ? "" : "s", facts.skipped);
  if (facts.partial > 0) text += fmt::format(", {} partial", facts.partial);
  if (facts.scale_last) text += fmt::format(", scale {}", scale_text(*facts.scale_last));
  return text;
}

}  // namespace

RunFacts facts_of(const RunView& view) {
  RunFacts facts;
  facts.attempts = view.attempts;
  facts.applied = view.applied;
  facts.skipped = view.skipped;
  facts.partial = view.partial;
  if (!view.scalers.empty()) {
    facts.scale_first = view.scalers.front().scale_first;
    facts.scale_last = view.scalers.front().scale;
    facts.scale_min = view.scalers.front().scale_min;
  }
  return facts;
}

std::string verdict_text(Severity verdict) {
  switch (verdict) {
    case Severity::kNone:
      return "healthy";
    case Severity::kInfo:
      return "info";
    case Severity::kWarning:
      return "warning";
    case Severity::kCritical:
      return "critical";
  }
  return "healthy";
}

Diagnosis diagnose(const RunFacts& facts, std::vector<Finding> findings) {
  Diagnosis diagnosis;
  diagnosis.facts = facts;
  std::stable_sort(findings.begin(), findings.end(), [](const Finding& a, const Finding& b) {
    const auto key = [](const Finding& f, std::size_t cause) {
      return std::tuple(-static_cast<int>(f.severity), cause, f.segment, f.first_attempt);
    };
    return key(a, causality(a)) < key(b, causality(b));
  });
  diagnosis.findings = std::move(findings);
  if (diagnosis.findings.empty()) {
    diagnosis.headline =
        facts.attempts == 0 ? "nothing to judge by: no attempt was seen" : "nothing is wrong with this run: " + counts(facts);
    return diagnosis;
  }
  const Finding& root = diagnosis.findings.front();
  diagnosis.verdict = root.severity;
  if (root.severity >= Severity::kWarning) {
    // That all is as it should be is no advice beside something that is not.
    for (Finding& finding : diagnosis.findings) {
      std::erase_if(finding.advice, [](const Advice& advice) { return advice.id == "calm"; });
    }
  }
  diagnosis.headline = fmt::format("{}: {}", root.rule, root.summary);
  // Rules whose summary does not tell the origin themselves.
  if (root.blame && root.summary.find(" began in ") == std::string::npos && !root.blame->where.empty()) {
    diagnosis.headline += fmt::format("; it began in {}", origin_text(*root.blame));
  }
  if (root.blame && root.blame->rank_of_origin && root.blame->ranks.size() < 2 && root.blame->where != "input") {
    diagnosis.headline += fmt::format(" of rank {}", *root.blame->rank_of_origin);
  }
  return diagnosis;
}

}  // namespace scalewatch::domain
