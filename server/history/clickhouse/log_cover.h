// Which entries of a run's log in ClickHouse count. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace scalewatch::clickhouse {

// What batches say of a run's log.
struct LogCover {
  // Places of a term's entries that count; those of several terms do not overlap.
  struct Window {
    std::uint64_t term = 0;
    std::uint64_t first = 0;
    std::uint64_t last = 0;
  };
  std::vector<Window> windows;                                            // latest term first
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint64_t> seqs;  // by rank and stream: sent up to here

  [[nodiscard]] bool holds(std::uint64_t term, std::uint64_t pos) const;
  // The last place that counts; 0: none.
  [[nodiscard]] std::uint64_t end() const;
  // Of a snapshot: the log up to it is the one that counts.
  [[nodiscard]] bool reaches(std::uint64_t term, std::uint64_t pos) const;
};
// Rows of `batches`: of a stream, or of a run's own entries (rank kNoRank). Pure.
inline constexpr std::uint32_t kNoRank = 0xffffffff;
struct Mark {
  std::uint64_t term = 0;
  std::uint32_t rank = 0;
  std::uint64_t stream = 0;
  std::uint64_t last_seq = 0;
  std::uint64_t from_pos = 0;
  std::uint64_t to_pos = 0;
};
LogCover cover_of(const std::vector<Mark>& marks);

}  // namespace scalewatch::clickhouse
