// Which tensors are measured at which attempts, and of which the full record is sent.
//
// The trainer's own rules are fixed at its first attempt; the server's directives stand in for them, for a time. The client's
// thread works both out into Overrides, which the trainer's thread only looks up.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "client_lib/src/types.h"
#include "client_lib/src/unpack.h"

namespace scalewatch::client {

inline constexpr std::uint32_t kNever = std::numeric_limits<std::uint32_t>::max();

struct Cadence {
  std::uint32_t every = 1;         // attempts between two measurements; 0 = never measured
  std::uint32_t report_every = 1;  // of what is measured, how often full records are sent; kNever = non-finite ones only
  std::uint64_t start = 1;         // first attempt
  std::uint64_t end = 0;           // last attempt; 0 = none
  bool only_found_inf = false;     // send full records only of attempts where an optimizer found Inf

  bool operator==(const Cadence&) const = default;
};

// What a cadence says of one attempt.
struct Due {
  bool measure = true;
  SendMode send = SendMode::kAlways;
};
[[nodiscard]] Due due(const Cadence& cadence, std::uint64_t attempt) noexcept;

// "*" matches any characters, everything else itself.
[[nodiscard]] bool matches(std::string_view pattern, std::string_view name) noexcept;

// The trainer's own rules. The last one that matches a tensor holds for it; without any, everything is measured and sent.
class Sampling {
 public:
  static constexpr std::size_t kMaxRules = 64;
  struct Rule {
    std::int32_t role = 0;  // 0 = any
    std::string include;    // pattern; empty = all
    std::string exclude;    // pattern of those that it does not speak of; empty = none
    Cadence cadence;
  };

  void add(Rule rule);
  [[nodiscard]] std::size_t size() const noexcept { return rules_.size(); }
  // Index into cadences().
  [[nodiscard]] std::uint16_t cadence_of(const TensorInfo& tensor) const noexcept;
  [[nodiscard]] const std::vector<Cadence>& cadences() const noexcept { return cadences_; }

 private:
  std::vector<Rule> rules_;
  std::vector<Cadence> cadences_ = std::vector<Cadence>(1);  // of no rule, then one a rule
};

// What directives say of each tensor. Made by the client's thread, used by the trainer's.
struct Overrides {
  std::vector<Cadence> cadences;
  std::vector<Due> due;           // of the attempt that is open, one a cadence
  std::vector<std::uint16_t> of;  // by tensor id: 0 (or absent) = the trainer's own rules, else 1 + index into cadences
};

// The server's directives in force. Used by the client's thread.
class Directives {
 public:
  static constexpr std::size_t kMax = 64;
  static constexpr std::size_t kMaxStars = 256;  // patterns with a "*", of all directives; names without cost a look-up

  // All that are in force on a new stream, and the server's clock minus this machine's, in ms.
  void replace(std::vector<Directive> directives, std::int64_t clock_offset_ms);
  void put(Directive directive);
  // Ends what has run out. now_ms: this machine's clock, Unix milliseconds; attempt: the newest.
  void expire(std::int64_t now_ms, std::uint64_t attempt);
  // The ring was asked for since the last call.
  [[nodiscard]] bool take_ring_request();
  [[nodiscard]] bool any() const noexcept { return !active_.empty(); }
  // Whether what build() would say is new since the last build.
  [[nodiscard]] bool changed() const noexcept { return changed_; }
  // Never null; without a directive it says nothing of any tensor. table: the one of the last call, or longer.
  [[nodiscard]] std::unique_ptr<Overrides> build(std::span<const TensorInfo> table, const Sampling& own);

 private:
  struct Active {
    Directive said;
    std::unordered_set<std::string> names;  // patterns without a star
    std::vector<std::string> stars;
    [[nodiscard]] bool speaks_of(const TensorInfo& tensor) const;
  };

  void add(Directive directive);
  [[nodiscard]] std::optional<Cadence> most_of(const TensorInfo& tensor, const Cadence& own) const;
  void ask_ring(const Directive& directive);

  std::vector<Active> active_;
  std::vector<std::string> ring_sent_;  // ids whose ring was asked for, the newest kMax
  Overrides built_;                     // of the last build
  std::int64_t clock_offset_ms_ = 0;
  bool ring_ = false;
  bool changed_ = false;
};

}  // namespace scalewatch::client
