// Ten attempts of a tensor taken together, by every statistic that pictures are drawn of (see FORMAT.md, "Scores"). A picture
// of many attempts is read from them alone.
//
// Pure and thread-safe. What is read may come from a damaged file: then functions say false or give nothing.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/history/intervals.h"
#include "server/history/scores.h"

namespace scalewatch::history {

inline constexpr std::uint64_t kGroupAttempts = 10;

// What a shared history takes together besides.
inline constexpr std::uint64_t kWideAttempts = 10 * kGroupAttempts;

// Attempts 1 to 10 are group 1.
constexpr std::uint64_t group_of(std::uint64_t attempt, std::uint64_t width = kGroupAttempts) {
  return attempt / width + (attempt % width != 0 ? 1 : 0);
}
constexpr std::uint64_t group_begin(std::uint64_t group, std::uint64_t width = kGroupAttempts) {
  return group == 0 ? 0 : (group - 1) * width + 1;
}
constexpr std::uint64_t group_end(std::uint64_t group, std::uint64_t width = kGroupAttempts) {  // inclusive
  return group * width;
}

// What of attempts is whole groups, and what is not.
struct GroupSplit {
  std::vector<Interval> whole;
  std::vector<Interval> edges;
};
GroupSplit split_groups(const std::vector<Interval>& attempts, std::uint64_t width = kGroupAttempts);

// The groups of a stretch with these attempts, rising.
std::vector<std::uint64_t> groups_of(std::span<const std::uint64_t> attempts);

// A group of a tensor's records.
struct GroupScores {
  static constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
  float peak = kNone;  // of the record with the least headroom: its absmax as stored, the scale that was under, its target
  double scale = 1;
  DType target = DType::kUnspecified;
  float magnitude = kNone;  // largest absmax divided by its scale
  float norm = kNone;
  float underflow = kNone;
  std::uint64_t non_finite = 0;

  void add(const Measured& measured);
  void add(const GroupScores& other);
  [[nodiscard]] std::optional<double> headroom() const;
  // What a picture shows of them, as told() says it; NaN: nothing.
  [[nodiscard]] double shown(By::By by) const;

 private:
  void take_peak(float absmax, double its_scale, DType its_target);
};

// Appends a tensor's frame: nothing when it has no record.
void write_scores(std::span<const GroupScores> groups, std::string& out);
// What a picture shows of each group of a frame; false for bytes that are no frame of that many groups.
bool read_scores(std::string_view frame, std::size_t groups, By::By by, std::vector<double>& shown);
// Whether two blobs of a row of scores say the same, however it is packed.
bool same_scores(std::string_view blob, std::string_view other, std::size_t groups);

}  // namespace scalewatch::history
