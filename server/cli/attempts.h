// A run's stored attempts one after the other, whatever gaps there are, in flat memory.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "scalewatch/v1/history.pb.h"
#include "server/cli/client.h"
#include "server/cli/options.h"
#include "server/cli/screen.h"

namespace scalewatch::cli {

struct AttemptWalk {
  std::string run;  // name or uid
  RangeOptions range;
  std::optional<std::uint32_t> rank;  // absent = merged over ranks
  bool tensors = true;                // false: summaries alone
  std::string_view doing = "read";    // what a progress line on a terminal's standard error says
  bool octaves = false;               // with histograms
};

// Calls `visit` for every page of every attempt in the range, in order: an attempt of many tensors comes in several pages, each
// with the same attempt, `first_page` true for the first of them. Ends early when `visit` returns false. Returns the number of
// attempts.
std::uint64_t walk_attempts(Client& client, const AttemptWalk& walk, const Screen& screen,
                            const std::function<bool(const v1::GetAttemptResponse&, bool first_page)>& visit);

// One attempt with all pages of its tensors; throws as get_attempt does.
v1::GetAttemptResponse read_attempt(Client& client, v1::GetAttemptRequest request);

// The last attempt stored of the segment (0 = newest), found by one call; absent when there is none.
std::optional<v1::AttemptSummary> newest_attempt(Client& client, const std::string& run, std::uint32_t segment);

// The range with segment and both ends set: the newest `most` attempts where `first` is open. Absent when nothing is stored
// there.
std::optional<RangeOptions> closed_range(Client& client, const std::string& run, const RangeOptions& range, std::uint64_t most);

// "applied", "skipped", "partial", or "-" when nobody said: over all scalers of the attempt.
std::string_view outcome_word(const v1::AttemptSummary& attempt);

}  // namespace scalewatch::cli
