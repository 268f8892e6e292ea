// Words that are made when somebody reads them. An open fault is raised at attempt after attempt, and of all but the last
// nobody reads more than the numbers.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <new>
#include <type_traits>

#include "server/domain/finding.h"

namespace scalewatch::domain {

// A function that sets a finding's summary and evidence from what it has captured: numbers and flags, and references to what
// outlives the run's state (thresholds). Names it takes from the finding's subject and blame. Allocates nothing.
class Wording {
 public:
  Wording() = default;
  template <class Words>
    requires std::is_trivially_copyable_v<Words> && std::is_invocable_v<const Words&, Finding&>
  Wording(Words words)  // NOLINT(google-explicit-constructor): a lambda is assigned
      : say_(
            [](const std::byte* bytes, Finding& finding) { (*std::launder(reinterpret_cast<const Words*>(bytes)))(finding); }) {
    static_assert(sizeof(Words) <= kBytes && alignof(Words) <= alignof(std::max_align_t));
    std::memcpy(bytes_.data(), &words, sizeof(Words));
  }
  explicit operator bool() const { return say_ != nullptr; }
  void say(Finding& finding) const { say_(bytes_.data(), finding); }

 private:
  static constexpr std::size_t kBytes = 112;
  void (*say_)(const std::byte*, Finding&) = nullptr;
  alignas(std::max_align_t) std::array<std::byte, kBytes> bytes_;
};

}  // namespace scalewatch::domain
