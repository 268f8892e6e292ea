// From one place in the log to the next: how many attempts went by, which of them were skipped, and in what order. Where the
// log does not say, the least alarming answer is taken.
#include <algorithm>
#include <cmath>
#include <utility>

#include "server/domain/policy.h"
#include "server/domain/scaler_track.h"
#include "server/logimport/story.h"

namespace scalewatch::logimport {
namespace {

using domain::AttemptDigest;
using domain::Outcome;

bool is_skip(const Reading& reading) {
  return reading.kind == Reading::Kind::kSkip || reading.kind == Reading::Kind::kHeldSkip ||
         reading.kind == Reading::Kind::kFatal;
}

// Line upon line the scale falls, and nothing is between them: with time to recover a scaler would have.
template <class Slots>
bool straight_down(const Slots& slots) {
  constexpr std::size_t kMany = 5;
  if (slots.size() < kMany) return false;
  const Reading* before = nullptr;
  for (const auto& slot : slots) {
    if (slot.events.size() != 1 || slot.events.front().reading.kind != Reading::Kind::kSkip) return false;
    const Reading& now = slot.events.front().reading;
    if (!now.scale_after || now.time_ms || now.step) return false;
    constexpr std::uint64_t kNear = 2;  // lines: a warning may stand between two
    if (before != nullptr && (*now.scale_after >= *before->scale_after || now.line - before->line > kNear)) return false;
    before = &now;
  }
  return true;
}

bool non_finite(const std::optional<double>& value) {
  return value && !std::isfinite(*value);
}

}  // namespace

// Skips of different scalers may be of one attempt, those of one scaler are not.
std::vector<Story::Slot> Story::take_slots() {
  std::vector<Slot> slots;
  std::map<std::uint32_t, std::size_t> used;  // by scaler: slots that it is done with
  for (Pending& pending : pending_) {
    const std::uint32_t scaler = pending.reading.scaler.value_or(0);
    std::size_t at = used[scaler];
    const bool skip = is_skip(pending.reading);
    while (at < slots.size() && slots[at].skip != skip) ++at;
    if (at == slots.size()) slots.emplace_back();
    Slot& slot = slots[at];
    slot.skip = skip;
    slot.missing = std::max(slot.missing, pending.missing);
    slot.passed = std::max(slot.passed, pending.passed);
    slot.events.push_back(std::move(pending));
    used[scaler] = at + 1;
  }
  pending_.clear();
  return slots;
}

// Skips that the record counts and no line told of; `printed`: those right before it. Sets counted_applied_.
std::uint64_t Story::counted(const Reading& record, std::uint64_t printed, std::optional<std::uint64_t> went_by) {
  counted_applied_ = false;
  if (record.skipped) {
    const std::uint64_t value = *record.skipped;
    const std::uint64_t lines = printed + std::exchange(printed_, 0);  // since the record before that counts
    if (record.skipped_span == Reading::Span::kInterval || record.skipped_span == Reading::Span::kStep) {
      counted_applied_ = value == 0;
      return value > lines ? value - lines : 0;
    }
    const auto before = std::exchange(skipped_total_, value);
    if (before) {
      counted_applied_ = value == *before;
      const std::uint64_t more = value > *before ? value - *before : 0;
      return more > lines ? more - lines : 0;
    }
    // The first total of the log: of this run's beginning, if it was the beginning.
    const std::uint64_t known = run_.attempt() + printed;
    const auto step = record.step.value_or(0);
    const bool beginning =
        step >= 0 && static_cast<std::uint64_t>(step) <= kSearch && static_cast<std::uint64_t>(step) >= value;
    counted_applied_ = value == 0;
    return beginning && value > known ? value - known : 0;
  }
  // Nobody counts or prints skips: the scale tells of them. It only falls by them.
  if (prints_skips_ || policy_ == "static" || policy_ == "none") return 0;
  const auto seen = scales_.find(record.scaler.value_or(0));
  const auto scale = scale_of(record);
  if (seen == scales_.end() || !seen->second.now || !scale || !(*scale > 0) || !(*seen->second.now > *scale)) return 0;
  const double octaves = std::log2(*seen->second.now / *scale);
  const auto falls = static_cast<std::uint64_t>(std::max(0.0, std::ceil(octaves - 0.1)));
  return went_by ? std::min(falls, *went_by) : falls;
}

void Story::add_counted(std::vector<Slot>& slots, std::uint64_t count, const Reading& record) {
  const std::uint64_t told = std::min(count, kMaxCounted);
  const auto first = slots.size();
  slots.resize(first + told);
  for (std::size_t i = first; i < slots.size(); ++i) slots[i].skip = true;
  // What the scale fell by in all is laid upon the last of them: those before may have been held by hysteresis.
  auto from = scales_[0].now;
  const auto to = scale_of(record);
  if (!from && to && run_.attempt() == 0) {
    const auto policy = domain::make_policy(policy_, parameters_);
    if (policy && policy->dynamic() && policy->init_scale() > *to) from = policy->init_scale();
  }
  if (!from || !to || !(*to > 0) || !(*from > *to) || !std::isfinite(*from)) return;
  const auto falls = static_cast<std::uint64_t>(std::max(1.0, std::round(std::log2(*from / *to))));
  if (falls > count) {
    slots.back().fell_from = from;
    slots.back().fell_to = to;
    return;
  }
  double scale = *to;
  for (std::uint64_t i = 0; i < std::min(falls, told); ++i) {
    Slot& slot = slots[slots.size() - 1 - i];
    slot.fell_to = scale;
    slot.fell_from = scale = i + 1 == falls ? *from : scale * 2;
  }
}

// The skips that were only counted lead all the way from the scale that the policy begins with.
bool Story::holds_search(const std::vector<Slot>& slots) const {
  const auto policy = domain::make_policy(policy_, parameters_);
  if (!policy || !policy->dynamic()) return false;
  for (const Slot& slot : slots) {
    if (slot.fell_from) return *slot.fell_from == policy->init_scale() && slot.fell_to && *slot.fell_to * 4 > *slot.fell_from;
  }
  return false;
}

// Attempts that a search took before its first skip that is told: no more than its scale explains.
std::uint64_t Story::search_before(const std::vector<Slot>& slots) const {
  for (const Slot& slot : slots) {
    if (!slot.skip) continue;
    std::optional<double> scale = slot.fell_from;
    for (const Pending& pending : slot.events) {
      const Reading& r = pending.reading;
      if (r.scale_before) scale = r.scale_before;
      if (!scale && r.scale_after) scale = *r.scale_after * 2;
    }
    if (!scale || !(*scale > 0)) return 0;
    const auto policy = domain::make_policy(policy_.empty() ? "pytorch" : policy_, parameters_);
    double init = policy ? policy->init_scale() : 0x1p16;
    if (*scale > init) init = std::max(0x1p32, *scale);
    return static_cast<std::uint64_t>(std::max(0.0, std::floor(std::log2(init / *scale) + 0.1)));
  }
  return 0;
}

Story::Interval Story::measure(const std::optional<Places::Place>& place, const Reading* record,
                               const std::vector<Slot>& slots) {
  Interval in;
  if (place && place_) {
    const auto steps = static_cast<std::uint64_t>(std::max<std::int64_t>(0, place->done - place_->done));
    in.went_by = steps > beyond_ ? steps - beyond_ : 0;
  }
  for (const Slot& slot : slots) ++(slot.skip ? in.skips : in.others);
  const bool bad_norm = record != nullptr && non_finite(record->grad_norm) && record->grad_norm_span != Reading::Span::kTotal;
  const auto own = [&] { return record != nullptr && !in.joins ? std::uint64_t{1} : std::uint64_t{0}; };
  if (record != nullptr && record->step_counts_attempts) counts_updates_ = !*record->step_counts_attempts;
  if (!place) {
    // A record of what a bar's steps did, or one in a log that numbers nothing.
    const bool all = record != nullptr && record->attempts_per_record && *record->attempts_per_record <= in.skips;
    in.joins = record != nullptr && in.skips > 0 && (bad_norm || all || places_.any());
    return in;
  }
  if (in.went_by) {
    if (!counts_updates_ && *in.went_by < in.skips) counts_updates_ = true;
    const std::uint64_t attempts = counts_updates_ ? *in.went_by + in.skips : *in.went_by;
    in.joins = record != nullptr && in.skips > 0 && (bad_norm || attempts == in.skips);
    const std::uint64_t told = in.skips + in.others + own();
    in.free = attempts > told ? attempts - told : 0;
    return in;
  }
  // The first place of the run.
  const auto target = static_cast<std::uint64_t>(std::max<std::int64_t>(0, place->done));
  in.joins = record != nullptr && in.skips > 0 && (bad_norm || target <= in.skips);
  const std::uint64_t told = in.skips + in.others + own();
  const std::uint64_t known = run_.attempt() + told;
  const std::uint64_t rest = target > known ? target - known : 0;
  const std::uint64_t length = record != nullptr ? record->attempts_per_record.value_or(0) : 0;
  if (run_.attempt() > 0) {
    in.free = rest;
  } else if (in.skips > 0 && length > told && rest + told > length && search_before(slots) == 0) {
    // No scale tells of a search, and the record says how far back it looks: nobody knows what was before.
    in.free = length - told;
    in.missed = rest - in.free;
  } else if (in.skips > 0) {
    // All of them skipped, if the scale explains that; else the log begins with a search, and all went well after it.
    in.missed = rest <= search_before(slots) ? rest : 0;
    in.free = rest - in.missed;
    // Of an interval that is counted only it is known that it was not all skipped. One that holds the whole search for a scale
    // began with the run.
    if (record != nullptr && record->skipped && record->skipped_span == Reading::Span::kInterval) {
      const bool whole = target <= kFirstInterval && holds_search(slots);
      const auto covered =
          record->attempts_per_record.value_or(whole ? target : static_cast<std::uint64_t>(places_.interval()));
      const std::uint64_t applied = covered > told ? covered - told : 0;
      in.free = std::min(rest, applied);
      in.missed = rest - in.free;
    }
  } else {
    in.missed = rest;
  }
  return in;
}

void Story::settle(std::optional<Places::Place> place, const Reading* record) {
  std::vector<Slot> slots = take_slots();
  const auto printed =
      static_cast<std::uint64_t>(std::count_if(slots.begin(), slots.end(), [](const Slot& s) { return s.skip; }));
  if (record != nullptr) {
    std::optional<std::uint64_t> went_by;
    if (place && place_) went_by = static_cast<std::uint64_t>(std::max<std::int64_t>(0, place->done - place_->done));
    const std::uint64_t count = counted(*record, printed, went_by);
    if (count > 0) add_counted(slots, count, *record);
    if (record->loss || record->loss_now) has_total_loss_ = true;
    if (count > kMaxCounted) run_.count_skips(count - kMaxCounted);
  }
  if (record == nullptr || !record->skipped) printed_ += printed;
  const Interval in = measure(place, record, slots);
  std::uint64_t free = in.free;
  if (in.missed > 0) run_.miss(in.missed);
  // Lines are missing: then nobody knows what became of the attempts between.
  const auto gap = std::find_if(slots.begin(), slots.end(), [](const Slot& s) { return s.missing > 0; });
  const bool first = !run_.any_applied() && run_.attempt() <= kSearch;
  // By the clock they came as fast as any: one right after the other.
  constexpr std::size_t kByClock = 3;
  const bool back_to_back =
      !place_ && in.missed > 0 && slots.size() >= kByClock && std::all_of(slots.begin(), slots.end(), [](const Slot& s) {
        return s.passed == 0 && !s.events.empty() && s.events.front().reading.time_ms;
      });
  const bool exact = back_to_back || straight_down(slots) || (place_ && place_->exact && slots.size() == 1);
  const std::uint64_t share = first || exact || gap != slots.end() || slots.empty() ? 0 : free / (slots.size() + 1);
  const bool joins = in.joins && !slots.empty();
  std::int64_t step = place_ ? place_->done : static_cast<std::int64_t>(run_.attempt());
  for (std::size_t i = 0; i < slots.size(); ++i) {
    Slot& slot = slots[i];
    if (slot.missing > 0) {
      const std::uint64_t unknown = run_.doubt() + free;
      run_.miss(free + (slot.missing > unknown ? slot.missing - unknown : 0));
      step += static_cast<std::int64_t>(counts_updates_ ? 0 : free);
      free = 0;
    } else if (share > 0) {
      run_.pass(share);
      free -= share;
      step += static_cast<std::int64_t>(share);
    } else if (slot.passed > 0 && !place) {
      run_.pass(slot.passed);
      step += static_cast<std::int64_t>(slot.passed);
    }
    // A bar stands before the attempts that follow it; a record after its own.
    if (!counts_updates_ && (!place_ || !place_->ahead)) ++step;
    tell_slot(slot, step, joins && i + 1 == slots.size() ? record : nullptr);
    if (!counts_updates_ && place_ && place_->ahead) ++step;
    if (!place) ++beyond_;
  }
  if (free > 0) run_.pass(free);
  moved_ += place && place_ ? std::max<std::int64_t>(0, place->done - place_->done) : 0;
  if (place) {
    run_.numbered();
    place_ = place;
    beyond_ = 0;
  }
  if (record != nullptr && !joins) {
    if (!place && !places_.any()) ++moved_;
    // One that comes before any place is about where the first one is.
    if (!place && !place_ && run_.attempt() == 0 && first_done_ > 1) run_.miss(static_cast<std::uint64_t>(first_done_ - 1));
    if (!place && !run_.take_back()) ++beyond_;
    tell_record(*record);
  }
  if (record == nullptr && !place && !notes_.empty()) tell_notes();
}

void Story::tell_slot(const Slot& slot, std::int64_t step, const Reading* record) {
  AttemptDigest& digest = run_.next();
  digest.step = step;
  std::uint64_t line = record != nullptr ? record->line : newest_line_;
  std::optional<std::int64_t> time = record != nullptr ? record->time_ms : newest_time_;
  for (const Pending& pending : slot.events) {
    line = pending.reading.line;
    if (pending.reading.time_ms) time = pending.reading.time_ms;
    observe(pending, digest);
  }
  if (slot.events.empty()) {
    // Only counted.
    declare(0, slot.fell_from);
    domain::ScalerObservation& seen = digest.scalers.emplace_back();
    seen.scale_before = slot.fell_from;
    seen.scale_after = slot.fell_to;
    decide(seen, Outcome::kSkipped);
    if (slot.fell_to) {
      scales_[0].now = slot.fell_to;
      scales_[0].before = slot.fell_from;
    }
  }
  if (record != nullptr) fill(digest, *record);
  if (!notes_.empty()) notes_.give(digest);
  last_was_skip_ = slot.skip;
  run_.tell(line, time);
}

void Story::tell_record(const Reading& record) {
  AttemptDigest& digest = run_.next();
  // Beyond the newest place the trainer goes on all the same.
  digest.step = place_ ? place_->done + static_cast<std::int64_t>(beyond_) : static_cast<std::int64_t>(run_.attempt() + 1);
  const auto scale = scale_of(record);
  if (scale || record.skipped || !policy_.empty()) declare(record.scaler.value_or(0), scale);
  fill(digest, record);
  const bool lost = non_finite(digest.grad_norm) || non_finite(digest.loss);
  digest.outcome_counted = counted_applied_;
  if (run_.has_scaler()) {
    domain::ScalerObservation& seen = digest.scalers.emplace_back();
    seen.scaler = record.scaler.value_or(0);
    const Outcome outcome = lost && !counted_applied_ ? Outcome::kUnknown : Outcome::kApplied;
    decide(seen, outcome);
    Scale& known = scales_[seen.scaler];
    // A line may tell the scale as it was before the skip that was printed right before.
    const bool older = scale && known.before && last_was_skip_ && domain::same_scale(*scale, *known.before);
    if (scale && !older) {
      if (known.now && !domain::same_scale(*known.now, *scale)) seen.scale_before = known.now;
      seen.scale_after = scale;
      if (outcome == Outcome::kApplied && !seen.scale_before) seen.scale_before = scale;
      known.now = scale;
    }
  }
  if (!notes_.empty()) notes_.give(digest);
  last_was_skip_ = false;
  run_.tell(record.line, record.time_ms);
}

void Story::tell_notes() {
  AttemptDigest& digest = run_.next();
  digest.step = place_ ? place_->done : static_cast<std::int64_t>(run_.attempt());
  const std::uint64_t line = notes_.line();
  notes_.give(digest);
  if (!run_.take_back()) ++beyond_;
  run_.tell(line, newest_time_);
}

}  // namespace scalewatch::logimport
