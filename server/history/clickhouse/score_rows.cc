#include "server/history/clickhouse/score_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <tuple>

#include "cuda/record/format.h"
#include "server/history/score_groups.h"

namespace scalewatch::clickhouse {

Stat stat_of(history::By::By by) {
  switch (history::need_of(by)) {
    case history::Need::kMagnitude:
      return Stat::kMagnitude;
    case history::Need::kNorm:
      return Stat::kNorm;
    case history::Need::kUnderflow:
      return Stat::kUnderflow;
    default:
      return Stat::kPeak;
  }
}

int stored_as(Stat stat, std::uint64_t width) {
  constexpr int kStats = static_cast<int>(Stat::kUnderflow);
  return static_cast<int>(stat) + (width == history::kWideAttempts ? kStats : 0);
}

double score_of(Stat stat, std::uint8_t target, std::uint64_t stored) {
  const auto value = std::bit_cast<double>(stored);
  switch (stat) {
    case Stat::kPeak: {
      // The peak as stored: of one target the largest has the least headroom.
      history::Measured peak;
      peak.record.min = -static_cast<float>(value);
      peak.record.max = static_cast<float>(value);
      peak.target = static_cast<DType>(target);
      return *history::score(history::By::BY_HEADROOM, peak);
    }
    case Stat::kMagnitude:
      return value;
    default:
      return history::rounded_up(value);
  }
}

void ScoreRows::add(std::uint64_t run, std::uint32_t segment, std::uint64_t tensor, std::uint64_t attempt, std::uint16_t day,
                    const history::Measured& measured) {
  const std::uint64_t number = history::group_of(attempt);
  const auto target = static_cast<std::uint8_t>(measured.target);
  const auto same = [&](const Group& group) {
    return group.tensor == tensor && group.group == number && group.target == target && group.segment == segment &&
           group.run == run && group.day == day;
  };
  if (groups_.empty() || !same(groups_.back())) groups_.push_back({run, segment, number, tensor, target, day});
  auto& stats = groups_.back().stats;
  const auto take = [&](Stat stat, std::optional<double> value) {
    double& most = stats[static_cast<std::size_t>(stat) - 1];
    if (value && *value >= 0 && *value > most) most = *value;
  };
  const float absmax = measured.record.absmax();
  if (absmax > 0 && std::isfinite(absmax) && format_limits(measured.target).max_finite > 0) take(Stat::kPeak, absmax);
  take(Stat::kMagnitude, history::score(history::By::BY_ABSMAX, measured));
  take(Stat::kNorm, history::norm_of(measured));
  take(Stat::kUnderflow, history::underflow_of(measured));
}

std::vector<ScoreRows::Group> ScoreRows::wider(const std::vector<Group>& tens) {
  std::vector<Group> hundreds;
  for (Group group : tens) {
    group.group = history::group_of(group.group, history::kWideAttempts / history::kGroupAttempts);
    const auto same = [&](const Group& other) {
      return other.tensor == group.tensor && other.group == group.group && other.target == group.target &&
             other.segment == group.segment && other.run == group.run && other.day == group.day;
    };
    if (hundreds.empty() || !same(hundreds.back())) {
      hundreds.push_back(group);
      continue;
    }
    auto& most = hundreds.back().stats;
    for (int stat = 0; stat < kStats; ++stat) most[stat] = std::max(most[stat], group.stats[stat]);
  }
  return hundreds;
}

void ScoreRows::put(std::span<const Group> groups, int first, Block& scores) {
  for (int stat = 0; stat < kStats; ++stat) {
    const bool by_target = stat + 1 == static_cast<int>(Stat::kPeak);
    for (const Group& group : groups) {
      const double value = group.stats[stat];
      if (value < 0) continue;
      // Zero may have a sign, which no order of bits bears.
      const std::uint64_t bits = value == 0 ? 0 : std::bit_cast<std::uint64_t>(value);
      add_row(scores, group.run, group.segment, static_cast<std::uint8_t>(first + stat), group.group, group.tensor,
              by_target ? group.target : std::uint8_t{0}, group.day, bits);
    }
  }
}

void ScoreRows::take(Block& scores) {
  std::vector<Group> hundreds = wider(groups_);
  const auto segment = [](const Group& group) { return std::tie(group.run, group.segment); };
  const auto is_before = [&](const Group& a, const Group& b) {
    return std::tuple(segment(a), a.group) < std::tuple(segment(b), b.group);
  };
  for (auto* groups : {&groups_, &hundreds}) std::stable_sort(groups->begin(), groups->end(), is_before);
  auto hundred = hundreds.begin();
  for (auto begin = groups_.begin(); begin != groups_.end();) {
    const auto is_other = [&](const Group& group) { return segment(group) != segment(*begin); };
    const auto end = std::find_if(begin, groups_.end(), is_other);
    const auto hundreds_end = std::find_if(hundred, hundreds.end(), is_other);
    put({begin, end}, 1, scores);
    put({hundred, hundreds_end}, stored_as(Stat{1}, history::kWideAttempts), scores);
    begin = end;
    hundred = hundreds_end;
  }
  groups_.clear();
}

}  // namespace scalewatch::clickhouse
