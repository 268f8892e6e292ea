#include "server/logimport/story_places.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace scalewatch::logimport {
namespace {

// No run has more epochs, nor more batches in one: a product beyond 2^63 is no place.
constexpr double kMost = 1e9;
constexpr std::int64_t kLag = 3;  // steps that another rank's line may be behind

bool is_skip(const Reading& reading) {
  return reading.kind == Reading::Kind::kSkip || reading.kind == Reading::Kind::kHeldSkip;
}

}  // namespace

Places::Source Places::source_of(const Reading& reading) const {
  if (is_skip(reading)) return reading.step ? Source::kSkip : Source::kNone;
  if (reading.kind == Reading::Kind::kRecord && reading.step) return Source::kStep;
  if (reading.kind == Reading::Kind::kProgress && reading.step) return Source::kBar;
  if (reading.kind != Reading::Kind::kRecord && reading.kind != Reading::Kind::kProgress) return Source::kNone;
  return reading.batch ? Source::kBatch : Source::kNone;
}

void Places::begin(const Beginning& first) {
  *this = Places();
  std::map<std::int64_t, int> bars;
  std::optional<std::int64_t> record;
  for (const Reading& reading : first) {
    if (reading.kind == Reading::Kind::kRunStart && &reading != &first.front()) break;
    const Source source = source_of(reading);
    if (source == Source::kBar) ++bars[reading.steps_total.value_or(0)];
    source_ = std::max(source_, source);
    if (source == Source::kStep && interval_ == 0) {
      if (record && *reading.step > *record) interval_ = *reading.step - *record;
      record = reading.step;
    }
  }
  // A bar with an end is the trainer's; most of its lines are of the training loop.
  int most = 0;
  for (const auto& [total, lines] : bars) {
    const int weight = total > 0 ? 4 * lines : lines;
    if (weight <= most) continue;
    most = weight;
    bar_total_ = total > 0 ? std::optional(total) : std::nullopt;
  }
}

std::optional<std::int64_t> Places::value_of(const Reading& reading, Source source) {
  switch (source) {
    case Source::kStep:
      return reading.step;
    case Source::kBar:
      if (main_bar(reading)) {
        other_bars_ = 0;
        return reading.step;
      }
      // The bar that was followed is gone for good.
      if (constexpr std::uint32_t kGone = 200; ++other_bars_ > kGone) {
        other_bars_ = 0;
        base_ += last_.value_or(0);
        last_.reset();
        bar_total_ = reading.steps_total;
        return reading.step;
      }
      return std::nullopt;
    case Source::kBatch:
      if (reading.batches_per_epoch && static_cast<double>(*reading.batches_per_epoch) < kMost && reading.epoch &&
          *reading.epoch >= 0 && *reading.epoch < kMost) {
        // Nearly everybody counts epochs from 1; who does not shows it by an epoch 0.
        from_zero_ = from_zero_ || *reading.epoch < 1;
        const auto epoch = static_cast<std::int64_t>(std::floor(*reading.epoch)) - (from_zero_ ? 0 : 1);
        return epoch * *reading.batches_per_epoch + *reading.batch;
      }
      return reading.batch;
    default:
      return std::nullopt;
  }
}

std::optional<Places::Place> Places::follow(std::int64_t value, std::optional<std::int64_t> total, const Reading& reading) {
  Place place;
  const std::optional<double> epoch = reading.epoch ? std::optional(std::floor(*reading.epoch)) : std::nullopt;
  const bool next_epoch = epoch && epoch_ && *epoch > *epoch_;
  if (epoch) epoch_ = epoch;
  if (last_ && value < *last_) {
    const bool to_the_end = total && *last_ + std::max<std::int64_t>(kLag, *total / 10) >= *total && value * 2 < *total;
    const bool begins_anew = next_epoch || (total && to_the_end && reading.kind == Reading::Kind::kProgress);
    if (begins_anew) {
      base_ += total ? std::max(*total, *last_) : *last_ + 1;
    } else if (*last_ - value <= kLag) {
      return std::nullopt;  // another rank, a little behind
    } else {
      place.restarted = true;
      base_ = 0;
    }
  }
  last_ = value;
  place.done = base_ + value;
  return place;
}

// The first record after a skip: one that is at most an interval further on counts what the skips count.
void Places::compare(std::int64_t value, Source source) {
  if (!beside_.first) {
    beside_.first = value;
    beside_.first_skip = beside_.last_skip;
  }
  if (source != Source::kStep || !beside_.last_skip) return;
  const std::int64_t further = value - *beside_.last_skip;
  if (further < -kLag) {
    beside_.same = false;
  } else if (!beside_.compared) {
    beside_.compared = true;
    beside_.same = interval_ > 0 && further >= 0 && further <= interval_ + kLag;
  }
}

std::optional<Places::Place> Places::of(const Reading& reading) {
  const Source source = source_of(reading);
  // Records took their step from the bar on their line, and now stand on lines of their own.
  constexpr std::uint32_t kWithout = 2;
  if (source == Source::kStep) without_step_ = 0;
  if (source == Source::kNone && reading.kind == Reading::Kind::kRecord && !reading.valid_loss) ++without_step_;
  if (source_ == Source::kStep && source == Source::kBar && without_step_ >= kWithout && last_ && *reading.step >= *last_ &&
      reading.steps_total) {
    source_ = Source::kBar;
    bar_total_ = reading.steps_total;
  }
  if (source == Source::kNone) return std::nullopt;
  if (source_ == Source::kNone || (source_ < source && source == Source::kStep && !last_)) source_ = source;
  if (source_ == Source::kSkip) {
    if (source == Source::kSkip) {
      beside_.at_skip = beside_.now;
      if (!beside_.first_skip) {
        beside_.first_skip = reading.step;
        beside_.first = beside_.now;
      }
      const auto skip_before = std::exchange(beside_.last_skip, reading.step);
      beside_.after_skip = true;
      if (beside_.same && last_ && *reading.step < *last_ && skip_before && *reading.step > *skip_before) {
        // It goes on from the skip before, and not from the records: they count something else.
        beside_.same = false;
        last_ = reading.step;
        return std::nullopt;
      }
      return follow(*reading.step, std::nullopt, reading);
    }
    const auto value = value_of(reading, source);
    if (!value || (beside_.now && *value < *beside_.now)) return std::nullopt;
    beside_.now = value;
    if (std::exchange(beside_.after_skip, false)) compare(*value, source);
    if (beside_.same) {
      if (!last_ || *value <= *last_) return std::nullopt;
      last_ = value;
      return Place{.done = base_ + *value};
    }
    // How many of its steps are one of the skips' count is learned from two of these.
    if (!beside_.at_skip || !beside_.first || !last_ || *beside_.last_skip <= *beside_.first_skip) return std::nullopt;
    const auto ratio =
        static_cast<double>(*beside_.at_skip - *beside_.first) / static_cast<double>(*beside_.last_skip - *beside_.first_skip);
    if (ratio < 0.5) return std::nullopt;
    const auto on = static_cast<std::int64_t>(static_cast<double>(*value - *beside_.at_skip) / ratio);
    if (on < 1) return std::nullopt;
    Place place;
    place.done = base_ + *last_ + on;
    return place;
  }
  if (source != source_) return std::nullopt;
  const auto value = value_of(reading, source);
  if (!value) return std::nullopt;
  const auto total = source == Source::kBar                                                      ? reading.steps_total
                     : source == Source::kBatch && !(reading.batches_per_epoch && reading.epoch) ? reading.batches_per_epoch
                                                                                                 : std::nullopt;
  auto place = follow(*value, total, reading);
  if (place) place->ahead = source == Source::kBar;
  return place;
}

}  // namespace scalewatch::logimport
