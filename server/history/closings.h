// How attempts were closed, from the run's logged inputs. They stay until retention removes the whole run: neither compaction
// nor thinning takes them.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "server/history/read_pool.h"

namespace scalewatch::history {

// An attempt closes at most 2,000 attempts after its first report (AttemptCloser); other inputs come between, but few.
inline constexpr std::size_t kMostInputs = 10'000;

// How one attempt was closed, from the inputs after its first report and from where each rank's first report of it stands.
class Closing {
 public:
  Closing(std::uint32_t segment, std::uint64_t attempt) : segment_(segment), attempt_(attempt) {}
  // The next input. True: no later one tells more. Throws StoreError for one that can't be read.
  bool found(const std::string& payload, std::uint64_t pos);
  // After that: a rank whose first report came after the closing was missing, though the closing may not name it.
  void first_report(std::uint32_t rank, std::uint64_t pos);
  [[nodiscard]] std::vector<std::uint32_t> missing() const { return {missing_.begin(), missing_.end()}; }

 private:
  const std::uint32_t segment_;
  const std::uint64_t attempt_;
  std::optional<std::uint64_t> pos_;  // of the closing
  std::set<std::uint32_t> missing_;
};

// Ranks that had not reported the attempt when it was closed, rising: those that were waited for, and all that reported it
// later. One that was not waited for (not joined yet, or silent for long) and never reported it is not among them. Empty also
// when it is not closed, when all that is stored of it came after a later attempt had closed, and when the logged input is gone
// (a file that was repaired, or cut by hand). Throws StoreError.
std::vector<std::uint32_t> missing_ranks(ReadPool& pool, std::int64_t run, std::uint32_t segment, std::uint64_t attempt);

}  // namespace scalewatch::history
