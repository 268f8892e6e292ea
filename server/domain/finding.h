// What the domain tells: diagnosed faults with evidence, blame and advice.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/domain/observation.h"

namespace scalewatch::domain {

// Ordered: a larger one is worse. Numbers equal scalewatch.v1.Severity.
enum class Severity : std::uint8_t { kNone = 0, kInfo = 1, kWarning = 2, kCritical = 3 };

struct Evidence {
  std::string name;  // e.g. "skipped"
  double value = 0;
  std::string unit;             // e.g. "attempts"; empty for plain counts and ratios
  std::optional<double> limit;  // what it was held against
};

struct Advice {
  std::string id;
  std::string text;
  double confidence = 0;  // 0 to 1
};

// Where it went wrong first, in the order that values flowed.
struct Blame {
  Attempt attempt = 0;    // at which it was seen; a finding may have begun before
  std::int64_t step = 0;  // the trainer's number for it
  std::string tensor;     // empty: only the class is known
  Role role = Role::kUnspecified;
  std::string kind;                    // "nan", "inf" or "both"
  std::string where;                   // "weights", "input", "loss", "forward", "backward", "optimizer" or "reduction"
  std::optional<Rank> rank_of_origin;  // known from loss, activations and activation gradients only
  std::vector<Rank> ranks;
  std::uint64_t nan = 0;
  std::uint64_t inf = 0;
  std::optional<std::uint32_t> first_bad_micro;  // micro-batch in which it went bad first, from 0; absent: not known
  std::uint32_t tensors_non_finite = 0;
  std::string fastest_falling;
  double octaves_fallen = 0;
  std::string note;  // what would have to be collected to know more
};

struct Finding {
  std::string id;  // rule/subject/segment/first attempt: unique within a run, the same after every refold
  std::string rule;
  Severity severity = Severity::kNone;
  std::string subject;  // within the run: a scaler, tensor or rank group; empty for the run
  std::uint32_t segment = 1;
  Attempt first_attempt = 0;
  Attempt last_attempt = 0;
  std::int64_t first_step = 0;
  std::int64_t last_step = 0;
  std::vector<Rank> ranks;  // empty: all
  std::string summary;      // one sentence, the number against its limit
  std::vector<Evidence> evidence;
  std::optional<Blame> blame;
  std::vector<Advice> advice;  // most certain first
  bool open = true;
  TimeMs first_time = 0;
  TimeMs last_time = 0;
  std::string acknowledged_by;  // empty: nobody
  std::string acknowledge_comment;
  TimeMs acknowledged_time = 0;
  std::uint64_t line = 0;  // of a log: where its first evidence stands, from 1; 0 = not from a log, or not known. Not persisted
};

// A change of a finding's life. Firing and resolving are told once each; updates are for display.
struct FindingEvent {
  enum class Change : std::uint8_t { kOpened, kEscalated, kUpdated, kAcknowledged, kResolved };
  Change change = Change::kOpened;
  Finding finding;
  std::string reason{};  // of a resolve that is no news of the run ("the rule was switched off"); empty otherwise
};

}  // namespace scalewatch::domain
