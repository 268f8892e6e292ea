// What is sent beside records so that lists and pictures of many tensors need not read them: rows of `scores` and `non_finite`.
// Pure; not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "server/history/clickhouse/native.h"
#include "server/history/scores.h"

namespace scalewatch::clickhouse {

// reports.records of those that were stored before there were scores.
inline constexpr std::uint32_t kUnscored = 0xffffffff;

// scores.stat of a group of ten attempts, and of a hundred the same and 4: the columns of a group of attempts
// (history::GroupScores). A score there is the bits of a double that is not negative, which are ordered as the numbers are.
enum class Stat : std::uint8_t { kPeak = 1, kMagnitude, kNorm, kUnderflow };
Stat stat_of(history::By::By by);
// scores.stat for groups of `width` attempts.
int stored_as(Stat stat, std::uint64_t width);
// The score that a row of scores stands for (scores.h).
double score_of(Stat stat, std::uint8_t target, std::uint64_t stored);

class ScoreRows {
 public:
  // Of a record that is not retrospective. In order of run, segment, tensor, attempt.
  void add(std::uint64_t run, std::uint32_t segment, std::uint64_t tensor, std::uint64_t attempt, std::uint16_t day,
           const history::Measured& measured);
  // Adds the rows to a block of `scores`, in its order, and forgets them.
  void take(Block& scores);

 private:
  static constexpr double kNone = -1;
  static constexpr int kStats = 4;
  struct Group {
    std::uint64_t run = 0;
    std::uint32_t segment = 0;
    std::uint64_t group = 0;
    std::uint64_t tensor = 0;
    std::uint8_t target = 0;
    std::uint16_t day = 0;
    double stats[kStats] = {kNone, kNone, kNone, kNone};  // by Stat - 1
  };
  // Of tens, in the order of add(), the hundreds.
  static std::vector<Group> wider(const std::vector<Group>& tens);
  // Rows of groups of one segment; `first` is the number of the first of their stats.
  static void put(std::span<const Group> groups, int first, Block& scores);
  std::vector<Group> groups_;
};

}  // namespace scalewatch::clickhouse
