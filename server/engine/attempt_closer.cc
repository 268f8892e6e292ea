#include "server/engine/attempt_closer.h"

#include <algorithm>
#include <iterator>

namespace scalewatch::engine {

void AttemptCloser::reset() {
  open_.clear();
  last_closed_ = 0;
}

bool AttemptCloser::note(domain::Attempt attempt, domain::Rank rank, std::int64_t steady_ms) {
  if (attempt <= last_closed_) return false;
  auto [entry, fresh] = open_.try_emplace(attempt);
  if (fresh) entry->second.first_ms = steady_ms;
  entry->second.ranks.insert(rank);
  return true;
}

std::vector<AttemptCloser::Due> AttemptCloser::due(const std::set<domain::Rank>& live, std::int64_t steady_ms,
                                                   Patience patience) const {
  if (open_.empty()) return {};
  if (live.empty()) patience = Patience::kNone;  // nobody is left to come
  const std::uint64_t patient_lead =
      std::clamp(kMaxOpenReports / std::max<std::uint64_t>(live.size(), 1), lead_, kMaxPatientLead);
  const std::uint64_t lead = patience == Patience::kNone ? lead_ : patient_lead;
  // The newest attempt that must close takes all before it along, so that they close in order.
  const domain::Attempt newest = open_.rbegin()->first;
  auto end = open_.begin();
  for (auto it = open_.begin(); it != open_.end(); ++it) {
    const auto& [attempt, state] = *it;
    const bool complete = patience != Patience::kForJoiners && state.ranks.size() >= live.size() &&
                          std::includes(state.ranks.begin(), state.ranks.end(), live.begin(), live.end());
    const bool old = patience == Patience::kNone && steady_ms - state.first_ms >= after_ms_;
    if (complete || old || newest >= attempt + lead) end = std::next(it);
  }
  std::vector<Due> out;
  for (auto it = open_.begin(); it != end; ++it) {
    Due& due = out.emplace_back();
    due.attempt = it->first;
    std::set_difference(live.begin(), live.end(), it->second.ranks.begin(), it->second.ranks.end(),
                        std::back_inserter(due.missing));
  }
  return out;
}

void AttemptCloser::close(domain::Attempt attempt) {
  open_.erase(open_.begin(), open_.upper_bound(attempt));
  last_closed_ = std::max(last_closed_, attempt);
}

}  // namespace scalewatch::engine
