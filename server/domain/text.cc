#include "server/domain/text.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace scalewatch::domain {
namespace {

// By LossCause.
constexpr std::array<std::string_view, 10> kLossCauses{"none",     "buffer_full", "queue_full",  "too_large", "rejected",
                                                       "internal", "reconnect",   "spool_limit", "device",    "store"};

}  // namespace

std::string number_text(double value) {
  return fmt::format("{:.6g}", value);
}

std::string scale_text(double scale) {
  if (std::isfinite(scale) && scale > 0) {
    int exponent = 0;
    if (std::frexp(scale, &exponent) == 0.5) {
      const int power = exponent - 1;
      return power >= 0 && power <= 9 ? number_text(scale) : fmt::format("2^{}", power);
    }
  }
  return number_text(scale);
}

std::string ranks_text(std::vector<Rank> ranks) {
  constexpr std::size_t kMaxPieces = 12;
  std::sort(ranks.begin(), ranks.end());
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  std::size_t pieces = 0;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i;
    while (end + 1 < ranks.size() && ranks[end + 1] == ranks[end] + 1) ++end;
    if (pieces > 0) text += ", ";
    if (pieces++ == kMaxPieces) return text + fmt::format("and {} more", ranks.size() - i);
    text += end > i ? fmt::format("{}-{}", ranks[i], ranks[end]) : fmt::format("{}", ranks[i]);
    i = end + 1;
  }
  return text;
}

std::string role_text(Role role) {
  switch (role) {
    case Role::kGradient:
      return "gradient";
    case Role::kParameter:
      return "parameter";
    case Role::kActivation:
      return "activation";
    case Role::kActivationGradient:
      return "activation gradient";
    case Role::kOptimizerState:
      return "optimizer state";
    case Role::kBuffer:
      return "buffer";
    case Role::kUnspecified:
      break;
  }
  return "tensor";
}

std::string kind_text(const std::string& kind) {
  if (kind == "nan") return "NaN";
  if (kind == "inf") return "Inf";
  if (kind == "both") return "NaN and Inf";
  return "a non-finite value";
}

std::string origin_text(const Blame& blame) {
  if (!blame.tensor.empty()) {
    const std::string tensor = fmt::format("{} {}", role_text(blame.role), blame.tensor);
    return blame.where == "reduction" ? "the all-reduce of " + tensor : tensor;
  }
  if (blame.where == "input") return "the input batch";
  if (blame.where == "loss") return "the loss";
  if (blame.where == "reduction") return "the all-reduce of gradients";
  if (blame.where == "backward") return "the backward pass";
  return "an unknown place";
}

std::string_view loss_cause_name(LossCause cause) {
  return kLossCauses[std::min(static_cast<std::size_t>(cause), kLossCauses.size() - 1)];
}

LossCause loss_cause_of(std::string_view name) {
  const auto found = std::find(kLossCauses.begin(), kLossCauses.end(), name);
  return found == kLossCauses.end() ? LossCause::kInternal : static_cast<LossCause>(found - kLossCauses.begin());
}

std::string scaler_text(const std::string& subject) {
  return subject.empty() ? "the scaler" : "scaler " + subject;
}

}  // namespace scalewatch::domain
