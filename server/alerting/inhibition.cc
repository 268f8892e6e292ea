#include "server/alerting/inhibition.h"

#include <algorithm>
#include <array>
#include <span>

namespace scalewatch::alerting {

namespace {

struct Row {
  std::string_view cause;
  std::span<const std::string_view> effects;
};

// Bad weights make everything after them bad, at every attempt.
constexpr std::array<std::string_view, 13> kOfBadWeights{
    "NonFiniteLoss", "NonFiniteGradient",  "NonFiniteActivation", "ConsecutiveSkips",     "NeverApplied",
    "StepFrozen",    "ScaleCollapse",      "ScaleVanished",       "FrequentSkippedSteps", "ScaleAtMinimum",
    "ScaleDrift",    "CalibrationTooLong", "LossUnchanged"};
// A scale so small that 1/scale is lost makes every step non-finite, whatever the gradients are.
constexpr std::array<std::string_view, 6> kOfVanishedScale{"ScaleCollapse",    "ScaleAtMinimum", "FrequentSkippedSteps",
                                                           "ConsecutiveSkips", "ScaleDrift",     "StepFrozen"};
// A server whose history refuses lags by that.
constexpr std::array<std::string_view, 1> kOfDegradedHistory{"IngestLag"};

constexpr std::array kRows{Row{"NonFiniteWeights", kOfBadWeights}, Row{"ScaleVanished", kOfVanishedScale},
                           Row{"HistoryDegraded", kOfDegradedHistory}};

}  // namespace

bool is_cause(std::string_view rule) {
  return std::any_of(kRows.begin(), kRows.end(), [&](const Row& row) { return row.cause == rule; });
}

bool explains(std::string_view cause, std::string_view effect) {
  return std::any_of(kRows.begin(), kRows.end(), [&](const Row& row) {
    return row.cause == cause && std::find(row.effects.begin(), row.effects.end(), effect) != row.effects.end();
  });
}

}  // namespace scalewatch::alerting
