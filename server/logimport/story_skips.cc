#include "server/logimport/story_skips.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "server/domain/scaler_track.h"

namespace scalewatch::logimport {
namespace {

using Kind = SkipLines::Verdict::Kind;

constexpr std::int64_t kRoomToGrow = 4;  // steps: no scaler grows sooner, and no rank is further behind
constexpr std::uint32_t kRises = 5;
constexpr std::int64_t kSameMomentMs = 10;

std::optional<double> scale_of(const Reading& skip) {
  if (skip.scale_after) return skip.scale_after;
  if (skip.scale_before) return skip.scale_before;
  return skip.scale;
}

// What the skip left of the scale.
double left_by(const Reading& skip) {
  if (skip.scale_after) return *skip.scale_after;
  return scale_of(skip).value_or(0) * (skip.kind == Reading::Kind::kHeldSkip ? 1.0 : 0.5);
}

bool same(const std::optional<double>& a, const std::optional<double>& b) {
  return !a || !b || domain::same_scale(*a, *b);
}

bool stands(const Reading& skip) {
  return (skip.scale_before && skip.scale_after && *skip.scale_before == *skip.scale_after) || scale_of(skip) == 0.0;
}

// R ranks that print the same falling scales, each in its own time: every value as often, and the next one only after it.
bool identical_sequences(const std::deque<double>& lines) {
  std::map<double, std::vector<std::size_t>, std::greater<>> places;
  for (std::size_t i = 0; i < lines.size(); ++i) places[lines[i]].push_back(i);
  std::size_t ranks = 0;
  for (const auto& [scale, where] : places) ranks = std::max(ranks, where.size());
  std::size_t index = 0;
  const std::vector<std::size_t>* before = nullptr;
  for (const auto& [scale, where] : places) {
    const bool end = index == 0 || index + 1 == places.size();
    const bool near_end = index == 1 || index + 2 == places.size();
    if (!end && where.size() + (near_end ? 1 : 0) < ranks) return false;
    if (before != nullptr && before->size() == where.size()) {
      for (std::size_t i = 0; i < where.size(); ++i) {
        if (where[i] < (*before)[i]) return false;
      }
    }
    before = &where;
    ++index;
  }
  return true;
}

}  // namespace

void SkipLines::note_unlabelled(double scale, std::int64_t moved) {
  if (moved >= kRoomToGrow) recent_.clear();
  recent_.push_back(scale);
  if (recent_.size() > kLines) recent_.pop_front();
  std::uint32_t rises = 0;
  for (std::size_t i = 1; i < recent_.size(); ++i) rises += recent_[i] > recent_[i - 1] ? 1 : 0;
  if (rises < kRises || identical_sequences(recent_)) return;
  domain::RankDifference difference;
  difference.what = "scale";
  const auto [low, high] = std::minmax_element(recent_.begin(), recent_.end());
  difference.first_value = *high;
  difference.other_value = *low;
  difference_ = std::move(difference);
  recent_.clear();
}

void SkipLines::note_labelled(domain::Rank rank, double scale) {
  if (own_.size() >= kRanks && !own_.contains(rank)) return;
  Own& own = own_[rank];
  own.scales.push_back(scale);
  if (own.scales.size() > kOwn) {
    own.scales.pop_front();
    ++own.first;
  }
  const auto& [other_rank, other] = *own_.begin();
  if (other_rank == rank) return;
  // A log may begin between the lines of one skip: the best of a few ways to lay the two side by side counts.
  constexpr std::uint32_t kDiffer = 3;
  std::uint32_t least = UINT32_MAX;
  for (std::int64_t shift = -2; shift <= 2; ++shift) {
    std::uint32_t differ = 0;
    for (std::size_t i = 0; i < own.scales.size(); ++i) {
      const std::int64_t at = static_cast<std::int64_t>(own.first + i) + shift - static_cast<std::int64_t>(other.first);
      if (at < 0 || at >= static_cast<std::int64_t>(other.scales.size())) continue;
      differ += domain::same_scale(own.scales[i], other.scales[static_cast<std::size_t>(at)]) ? 0 : 1;
    }
    const auto overlap = std::min(own.scales.size(), other.scales.size());
    if (overlap < kDiffer + 2) return;
    least = std::min(least, differ);
  }
  if (least < kDiffer) return;
  domain::RankDifference difference;
  difference.what = "scale";
  difference.first = other_rank;
  difference.other = rank;
  difference.first_value = other.scales.back();
  difference.other_value = scale;
  difference_ = std::move(difference);
  own_.clear();
}

void SkipLines::record(const Reading& record) {
  if (!record.rank || !record.step || !record.scale || record.scale_span == Reading::Span::kInterval) return;
  if (records_.size() >= kRanks && !records_.contains(*record.rank)) return;
  records_[*record.rank] = {*record.step, *record.scale};
  const auto& [rank, seen] = *records_.begin();
  if (rank == *record.rank || seen.first != *record.step) return;
  std::uint32_t& differ = records_differ_[*record.rank];
  // Both may be rounded.
  if (domain::same_scale(seen.second, *record.scale) || std::abs(seen.second - *record.scale) <= record.scale_quantum) {
    differ = 0;
    return;
  }
  if (++differ != 2) return;
  domain::RankDifference difference;
  difference.what = "scale";
  difference.first = rank;
  difference.other = *record.rank;
  difference.first_value = seen.second;
  difference.other_value = record.scale;
  difference_ = std::move(difference);
}

// Where the scale can't fall any more, a line that says the same may be a new skip.
SkipLines::Verdict SkipLines::at_the_floor(const Reading& skip) const {
  Verdict verdict;
  const bool other_rank = skip.rank && last_->rank && *skip.rank != *last_->rank;
  const bool of_numbered = last_->step && !skip.step;
  const bool same_moment = skip.time_ms && last_->time_ms && std::abs(*skip.time_ms - *last_->time_ms) < kSameMomentMs;
  const bool as_usual = usual_ > 1 && lines_ < usual_;
  if (other_rank || of_numbered || same_moment || as_usual) verdict.kind = Kind::kSame;
  return verdict;
}

// Octaves between what the newest skip left and what this one found.
double SkipLines::missing(const Reading& skip) const {
  const auto scale = scale_of(skip);
  if (!left_ || !scale) return 0;
  const double found = skip.scale_before.value_or(*scale * 2);
  if (!(found > 0) || !(*left_ > found)) return 0;
  const double octaves = std::log2(*left_ / found);
  return octaves > 0.9 ? octaves : 0;
}

void SkipLines::fill(const Reading& skip, Verdict& verdict) {
  verdict.kind = Kind::kFills;
  verdict.missing = missing(skip);
  last_->scale_before = skip.scale_before;
  last_->scale_after = skip.scale_after;
  last_->scale = skip.scale;
  left_ = left_by(skip);
  known_.push_back(*scale_of(skip));
}

SkipLines::Verdict SkipLines::look(const Reading& skip, std::int64_t moved) {
  Verdict verdict;
  const auto scale = scale_of(skip);
  if (scale && skip.rank) {
    note_labelled(*skip.rank, *scale);
  } else if (scale) {
    note_unlabelled(*scale, moved);
  }
  const auto take = [&] {
    if (last_) usual_ = lines_;
    last_ = skip;
    if (scale) left_ = left_by(skip);
    lines_ = 1;
    if (moved >= kRoomToGrow) known_.clear();
    if (scale) known_.push_back(*scale);
    if (known_.size() > kLines) known_.pop_front();
  };
  const auto again = [&] {
    ++lines_;
    verdict.kind = Kind::kSame;
    return verdict;
  };
  if (!last_) {
    take();
    return verdict;
  }
  const auto before = scale_of(*last_);
  if (skip.step && last_->step) {
    if (*skip.step == *last_->step) {
      if (before || !scale) return again();
      fill(skip, verdict);
      return verdict;
    }
    verdict.missing = missing(skip);
    take();
    return verdict;
  }
  if (!scale) {
    // Nothing but the word: one is as good as another until the trainer moves on.
    if (moved == 0 && !before && !(skip.time_ms && last_->time_ms && *skip.time_ms - *last_->time_ms >= kSameMomentMs)) {
      return again();
    }
    if (moved == 0 && before && last_->line + 1 >= skip.line) return again();
    take();
    return verdict;
  }
  if (!before) {
    if (moved > 0) {
      take();
      return verdict;
    }
    fill(skip, verdict);
    return verdict;
  }
  const bool equal = skip.kind == last_->kind && same(skip.scale_after, last_->scale_after) &&
                     same(skip.scale_before, last_->scale_before) && domain::same_scale(*scale, *before) &&
                     skip.hysteresis_after == last_->hysteresis_after;
  if (equal) {
    if (stands(skip)) {
      verdict = at_the_floor(skip);
      if (verdict.kind == Kind::kSame) {
        ++lines_;
      } else {
        take();
      }
      return verdict;
    }
    if (moved < kRoomToGrow) return again();
    take();
    return verdict;
  }
  if (moved<kRoomToGrow&& * scale> * before &&
      std::any_of(known_.begin(), known_.end(), [&](double known) { return domain::same_scale(known, *scale); })) {
    return again();  // a rank that is a little behind
  }
  verdict.missing = missing(skip);
  take();
  return verdict;
}

}  // namespace scalewatch::logimport
