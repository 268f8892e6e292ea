// What closed attempts of a segment were, counted: why they were skipped, and what was non-finite in them. Plain values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "cuda/record/record.h"
#include "server/domain/attempt.h"
#include "server/domain/finding.h"

namespace scalewatch::domain {

inline constexpr std::size_t kRoles = static_cast<std::size_t>(Role::kBuffer) + 1;  // an index by Role

// What was non-finite first at a skipped attempt, in the order that values flow: as it was blamed. Numbers are persisted.
enum class SkipReason : std::uint8_t { kParameter, kInput, kLoss, kActivation, kActivationGradient, kGradient, kUnknown };
inline constexpr std::size_t kSkipReasons = static_cast<std::size_t>(SkipReason::kUnknown) + 1;

struct AttemptCounts {
  std::array<std::uint64_t, kRoles> non_finite_elements{};  // by role; masks left out
  std::array<std::uint64_t, kRoles> non_finite_attempts{};
  std::uint64_t non_finite_losses = 0;  // attempts
  std::array<std::uint64_t, kSkipReasons> skips{};
  std::uint64_t non_finite_applied = 0;  // attempts applied although a gradient was non-finite

  // An attempt with what was found of it as it closed. -Inf that may be a mask is none (see TensorAt::neg_inf_is_new).
  void add(const JoinedAttempt& attempt, AttemptOutcome outcome, const std::optional<Blame>& blame);

  bool operator==(const AttemptCounts&) const = default;
  template <class A>
  void persist(A& a) {
    for (auto* list : {&non_finite_elements, &non_finite_attempts}) {
      for (std::uint64_t& count : *list) a(count);
    }
    for (std::uint64_t& count : skips) a(count);
    a(non_finite_losses, non_finite_applied);
  }

 private:
  void add_elements(const JoinedAttempt& attempt);
};

}  // namespace scalewatch::domain
