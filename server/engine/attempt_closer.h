// Decides when no more reports will change an attempt: all live ranks reported it, a rank is `lead` attempts ahead, or
// `after_ms` passed since its first report. Late reports reopen nothing, so ranks that are on their way back are waited for.
//
// Not thread-safe; one run's strand owns one. Bounded: at most about kMaxOpenReports reports are of open attempts.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "server/domain/observation.h"

namespace scalewatch::engine {

class AttemptCloser {
 public:
  AttemptCloser(std::uint64_t lead, std::int64_t after_ms) : lead_(lead), after_ms_(after_ms) {}

  // A new segment: attempts begin at 1 again.
  void reset();
  // Takes a report in. False when its attempt is closed already.
  bool note(domain::Attempt attempt, domain::Rank rank, std::int64_t steady_ms);

  // Whom closing waits for beyond lead and time, while the caller expects them.
  enum class Patience : std::uint8_t {
    kNone,
    kForBehind,   // live ranks that are reconnecting or sending what they had kept: neither lead nor time closes
    kForJoiners,  // ranks that have not joined yet: nothing closes
  };
  static constexpr std::uint64_t kMaxOpenReports = 100'000;  // patience ends here
  static constexpr std::uint64_t kMaxPatientLead = 2'000;    // and here, in attempts

  struct Due {
    domain::Attempt attempt = 0;
    std::vector<domain::Rank> missing;
  };
  // What must close now, in order. `live` are the ranks that are waited for; when it is empty everything closes.
  [[nodiscard]] std::vector<Due> due(const std::set<domain::Rank>& live, std::int64_t steady_ms,
                                     Patience patience = Patience::kNone) const;
  // An attempt and all before it are closed.
  void close(domain::Attempt attempt);

  [[nodiscard]] domain::Attempt last_closed() const { return last_closed_; }
  // Ranks that reported each open attempt, for snapshots.
  struct Open {
    std::set<domain::Rank> ranks;
    std::int64_t first_ms = 0;
  };
  [[nodiscard]] const std::map<domain::Attempt, Open>& open() const { return open_; }

 private:
  const std::uint64_t lead_;
  const std::int64_t after_ms_;
  std::map<domain::Attempt, Open> open_;
  domain::Attempt last_closed_ = 0;
};

}  // namespace scalewatch::engine
