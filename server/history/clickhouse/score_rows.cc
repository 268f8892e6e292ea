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

void ScoreRows::take(Block& scores) {
  const auto place = [](const Group& group) { return std::tie(group.run, group.segment, group.group); };
  const auto is_before = [&](const Group& a, const Group& b) { return place(a) < place(b); };
  std::stable_sort(groups_.begin(), groups_.end(), is_before);
  for (auto begin = groups_.begin(); begin != groups_.end();) {
    const auto end = std::find_if(
        begin, groups_.end(), [&](const Group& group) { return group.run != begin->run || group.segment != begin->segment; });
    for (std::uint8_t stat = 1; stat <= std::size(begin->stats); ++stat) {
      for (auto group = begin; group != end; ++group) {
        const double value = group->stats[stat - 1];
        if (value < 0) continue;
        // Zero may have a sign, which no order of bits bears.
        const std::uint64_t bits = value == 0 ? 0 : std::bit_cast<std::uint64_t>(value);
        const std::uint8_t target = stat == static_cast<std::uint8_t>(Stat::kPeak) ? group->target : std::uint8_t{0};
        add_row(scores, group->run, group->segment, stat, group->group, group->tensor, target, group->day, bits);
      }
    }
    begin = end;
  }
  groups_.clear();
}

}  // namespace scalewatch::clickhouse
