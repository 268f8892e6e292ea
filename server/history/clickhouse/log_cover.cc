#include "server/history/clickhouse/log_cover.h"

#include <algorithm>
#include <functional>

namespace scalewatch::clickhouse {

namespace {

constexpr std::uint64_t kNoEnd = UINT64_MAX;

}  // namespace

bool LogCover::holds(std::uint64_t term, std::uint64_t pos) const {
  return std::any_of(windows.begin(), windows.end(),
                     [&](const Window& window) { return window.term == term && window.first <= pos && pos <= window.last; });
}

bool LogCover::reaches(std::uint64_t term, std::uint64_t pos) const {
  return std::any_of(windows.begin(), windows.end(),
                     [&](const Window& window) { return window.term == term && pos <= window.last; });
}

std::uint64_t LogCover::end() const {
  std::uint64_t end = 0;
  for (const Window& window : windows) end = std::max(end, window.last);
  return end;
}

// Who takes a run over goes on after what it found: from the first place of its term on, what earlier owners still sent does
// not count.
LogCover cover_of(const std::vector<Mark>& marks) {
  std::map<std::uint64_t, LogCover::Window, std::greater<>> terms;
  for (const Mark& mark : marks) {
    auto& window = terms.try_emplace(mark.term, LogCover::Window{mark.term, mark.from_pos, mark.to_pos}).first->second;
    window.first = std::min(window.first, mark.from_pos);
    window.last = std::max(window.last, mark.to_pos);
  }
  LogCover cover;
  std::uint64_t below = kNoEnd;
  for (auto& [term, window] : terms) {
    window.last = std::min(window.last, below - 1);
    if (window.first <= window.last) cover.windows.push_back(window);
    below = std::min(below, window.first);
  }
  for (const Mark& mark : marks) {
    if (mark.rank == kNoRank || !cover.holds(mark.term, mark.to_pos)) continue;
    std::uint64_t& seq = cover.seqs[{mark.rank, mark.stream}];
    seq = std::max(seq, mark.last_seq);
  }
  return cover;
}

}  // namespace scalewatch::clickhouse
