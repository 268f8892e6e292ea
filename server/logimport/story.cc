#include "server/logimport/story.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "server/domain/scaler_track.h"

namespace scalewatch::logimport {
namespace {

constexpr std::size_t kMaxScalers = 16;

bool has_numbers(const Reading& r) {
  return r.loss || r.loss_now || r.loss_part || r.loss_missing || r.grad_norm || r.lr || r.scale || r.scale_before ||
         r.scale_after || r.skipped || r.nan_skipped || r.accuracy;
}

// Skips whose lines are not in the log.
std::uint64_t octaves_missing(const SkipLines::Verdict& verdict) {
  return static_cast<std::uint64_t>(std::max(0.0, std::ceil(verdict.missing - 0.1)));
}

// Fields that the second line about a step has and the first had not.
void merge(Reading& into, const Reading& from) {
  const auto take = [](auto& to, const auto& value) {
    if (!to) to = value;
  };
  if (!into.loss && from.loss) {
    into.loss = from.loss;
    into.loss_span = from.loss_span;
  }
  if (!into.grad_norm && from.grad_norm) {
    into.grad_norm = from.grad_norm;
    into.grad_norm_span = from.grad_norm_span;
  }
  if (!into.scale && from.scale) {
    into.scale = from.scale;
    into.scale_span = from.scale_span;
    into.scale_quantum = from.scale_quantum;
  }
  if (!into.skipped && from.skipped) {
    into.skipped = from.skipped;
    into.skipped_span = from.skipped_span;
  }
  take(into.loss_now, from.loss_now);
  take(into.loss_part, from.loss_part);
  take(into.lr, from.lr);
  take(into.accuracy, from.accuracy);
  take(into.attempts_per_record, from.attempts_per_record);
}

// Another rank's print of the same record. One that is lost again, or comes later, is a step that was tried again.
bool repeats(const Reading& told, const Reading& reading) {
  if (!reading.step || told.step != reading.step || told.file != reading.file) return false;
  if ((reading.loss && !std::isfinite(*reading.loss)) || told.time_ms != reading.time_ms) return false;
  return told.loss == reading.loss && told.loss_now == reading.loss_now && told.loss_part == reading.loss_part &&
         told.grad_norm == reading.grad_norm && told.lr == reading.lr && told.scale == reading.scale &&
         told.skipped == reading.skipped;
}

}  // namespace

Story::Story(const domain::Thresholds& thresholds, InputTap tap) : run_(thresholds, std::move(tap)), notes_(thresholds) {}

void Story::take(const Reading& reading) {
  ahead_.push_back(reading);
  if (ahead_.size() < kAhead + kBurst) return;
  while (ahead_.size() > kAhead) {
    tell(ahead_.front());
    ahead_.pop_front();
  }
}

void Story::pause() {
  while (!ahead_.empty()) {
    tell(ahead_.front());
    ahead_.pop_front();
  }
  flush_record();
  if (!pending_.empty() || !notes_.empty()) settle(std::nullopt, nullptr);
  run_.catch_up();
}

void Story::finish() {
  pause();
  run_.end();
}

void Story::begin_run(const Reading& first, std::size_t more) {
  fresh_ = false;
  file_ = first.file;
  policy_ = {};
  prints_skips_ = false;
  parameters_.clear();
  scales_.clear();
  skips_.clear();
  place_.reset();
  beyond_ = printed_ = 0;
  moved_ = 0;
  counts_updates_ = has_total_loss_ = fatal_told_ = counted_applied_ = last_was_skip_ = mean_lost_ = norm_told_ = false;
  skipped_total_.reset();
  leader_.reset();
  told_record_.reset();
  skip_time_.reset();
  gaps_.clear();
  const auto end = ahead_.begin() + static_cast<std::ptrdiff_t>(std::min(ahead_.size(), kAhead + 1 + more));
  const Beginning beginning(ahead_.begin(), end);
  places_.begin(beginning);
  Places looking = places_;
  first_done_ = 0;
  for (const Reading& reading : beginning) {
    const auto place = looking.of(reading);
    if (!place) continue;
    first_done_ = place->done;
    break;
  }
  std::map<std::string_view, int> policies;
  for (const Reading& reading : beginning) {
    if (reading.kind == Reading::Kind::kRunStart && &reading != &beginning.front()) break;
    if (!reading.policy.empty()) ++policies[reading.policy];
    prints_skips_ = prints_skips_ || reading.kind == Reading::Kind::kSkip || reading.kind == Reading::Kind::kHeldSkip;
  }
  int most = 0;
  for (const auto& [name, times] : policies) {
    if (times <= most) continue;
    most = times;
    policy_ = name;
  }
  run_.begin(first.line, first.file);
  if (places_.any()) run_.numbered();
}

void Story::restart(const Reading& reading) {
  flush_record();
  settle(std::nullopt, nullptr);
  fresh_ = true;
  if (reading.kind != Reading::Kind::kRunStart && reading.kind != Reading::Kind::kCheckpoint) tell(Reading(reading));
}

void Story::tell(const Reading& reading) {
  using Kind = Reading::Kind;
  if (!fresh_ && reading.file != file_) return restart(reading);
  if (reading.kind == Kind::kRunStart || reading.kind == Kind::kCheckpoint) {
    if (!fresh_ && run_.attempt() + pending_.size() + (held_ ? 1 : 0) > 0) restart(reading);
    return;
  }
  if (fresh_) begin_run(reading);
  newest_line_ = reading.line;
  if (reading.time_ms) newest_time_ = reading.time_ms;
  if (policy_.empty()) policy_ = reading.policy;
  if (reading.kind != Kind::kRecord) flush_record();
  switch (reading.kind) {
    case Kind::kRecord:
      return on_record(reading);
    case Kind::kProgress:
      if (const auto place = places_.of(reading)) {
        if (place->restarted) return restart(reading);
        // A bar that is drawn again tells nothing new.
        if (!place_ || place->done != place_->done) settle(place, nullptr);
      }
      return;
    case Kind::kSkip:
    case Kind::kHeldSkip:
      return on_skip(reading);
    case Kind::kGrowth:
      return on_growth(reading);
    case Kind::kScale:
      return on_scale(reading);
    case Kind::kFatal:
      return on_fatal(reading);
    case Kind::kNonFinite:
    case Kind::kRanksDiffer:
    case Kind::kMisuse:
    case Kind::kModuleRange:
    case Kind::kDominates:
      return on_note(reading);
    case Kind::kNorm:
      return on_norm(reading);
    case Kind::kRunStart:
    case Kind::kCheckpoint:
    case Kind::kEnd:
      return;
  }
}

void Story::wait(Pending pending) {
  // Nothing says where it is: it is told as soon as the next line shows that it is complete.
  if (!places_.any() || pending_.size() >= kMaxPending) settle(std::nullopt, nullptr);
  pending_.push_back(std::move(pending));
}

// Where lines have a time and no step: how many attempts the gap since the newest skip holds, beside the one that ends it.
std::uint64_t Story::passed_by_clock(const Reading& skip) {
  if (!skip.time_ms) return 0;
  const auto before = std::exchange(skip_time_, skip.time_ms);
  if (!before || *skip.time_ms <= *before) return 0;
  const std::int64_t gap = *skip.time_ms - *before;
  gaps_.push_back(gap);
  constexpr std::size_t kGaps = 32;
  if (gaps_.size() > kGaps) gaps_.pop_front();
  // Back to back are those that take about as long as the shortest.
  const std::int64_t shortest = *std::min_element(gaps_.begin(), gaps_.end());
  std::vector<std::int64_t> short_ones;
  for (const std::int64_t one : gaps_) {
    if (one * 2 <= shortest * 3) short_ones.push_back(one);
  }
  const auto middle = short_ones.begin() + static_cast<std::ptrdiff_t>(short_ones.size() / 2);
  std::nth_element(short_ones.begin(), middle, short_ones.end());
  const auto attempts = std::llround(static_cast<double>(gap) / static_cast<double>(std::max<std::int64_t>(1, *middle)));
  return attempts > 1 ? static_cast<std::uint64_t>(attempts - 1) : 0;
}

void Story::on_skip(const Reading& reading) {
  const std::uint32_t scaler = reading.scaler.value_or(0);
  if (skips_.size() >= kMaxScalers && !skips_.contains(scaler)) return;
  SkipLines& lines = skips_[scaler];
  const SkipLines::Verdict verdict = lines.look(reading, moved_);
  if (auto difference = lines.take_difference()) notes_.add(std::move(*difference), reading.line);
  prints_skips_ = true;
  if (verdict.kind == SkipLines::Verdict::Kind::kSame) return;
  if (verdict.kind == SkipLines::Verdict::Kind::kFills) {
    for (auto pending = pending_.rbegin(); pending != pending_.rend(); ++pending) {
      if (pending->reading.scaler.value_or(0) != scaler) continue;
      pending->missing = std::max(pending->missing, octaves_missing(verdict));
      pending->reading.scale_before = reading.scale_before;
      pending->reading.scale_after = reading.scale_after;
      pending->reading.scale = reading.scale;
      if (reading.hysteresis_after) pending->reading.hysteresis_after = reading.hysteresis_after;
      return;
    }
    return;
  }
  if (const auto place = places_.of(reading)) {
    if (place->restarted) return restart(reading);
    Places::Place at = *place;
    at.ahead = at.exact = true;
    settle(at, nullptr);
  }
  Pending pending{reading, 0, 0};
  pending.missing = octaves_missing(verdict);
  pending.passed = passed_by_clock(reading);
  moved_ = 0;
  wait(std::move(pending));
}

void Story::on_growth(const Reading& reading) {
  const auto after = reading.scale_after ? reading.scale_after : reading.scale;
  if (!after) return;
  const std::uint32_t scaler = reading.scaler.value_or(0);
  // Another rank's word of it, or the same line in other words.
  if (!pending_.empty() && pending_.back().reading.kind == Reading::Kind::kGrowth &&
      pending_.back().reading.scale_after == after) {
    return;
  }
  if (pending_.empty() && scales_.contains(scaler) && scales_[scaler].now == after) return;
  Pending pending{reading, 0, 0};
  pending.reading.scale_after = after;
  if (!places_.any() && reading.clean_steps && *reading.clean_steps > 1) pending.passed = *reading.clean_steps - 1;
  ++moved_;
  wait(std::move(pending));
}

void Story::on_scale(const Reading& reading) {
  const auto value = reading.scale ? reading.scale : reading.scale_before ? reading.scale_before : reading.scale_after;
  if (reading.scale_is_static && !run_.has_scaler()) {
    policy_ = "static";
    if (value && *value > 0) parameters_["loss_scale"] = *value;
    return;
  }
  if (!value) return;
  const std::uint32_t scaler = reading.scaler.value_or(0);
  const bool waits = !pending_.empty() && pending_.back().reading.kind == Reading::Kind::kSkip && moved_ == 0 &&
                     !pending_.back().reading.scale_before && !pending_.back().reading.scale_after &&
                     !pending_.back().reading.scale;
  if (waits) {
    Reading filled = pending_.back().reading;
    filled.scale_before = reading.scale_before;
    filled.scale_after = reading.scale_after;
    filled.scale = reading.scale;
    pending_.back().missing = std::max(pending_.back().missing, octaves_missing(skips_[scaler].look(filled, 0)));
    pending_.back().reading = std::move(filled);
    return;
  }
  const auto known = scales_.find(scaler);
  const std::optional<double> now = known != scales_.end() ? known->second.now : std::nullopt;
  if (now && domain::same_scale(*now, *value)) return;
  if (!pending_.empty() && pending_.back().reading.scale == value) return;
  // The newest skip's own scale, told again.
  if (!pending_.empty() && (pending_.back().reading.scale_before == value || pending_.back().reading.scale_after == value)) {
    return;
  }
  Pending pending{reading, 0, 0};
  pending.reading.scale = value;
  wait(std::move(pending));
}

void Story::on_fatal(const Reading& reading) {
  if (std::exchange(fatal_told_, true)) return;
  wait({reading, 0, 0});
}

void Story::on_note(const Reading& reading) {
  if (reading.step && !places_.any()) {
    // Its own number is all that tells where it is.
    const auto done = static_cast<std::uint64_t>(std::max<std::int64_t>(0, *reading.step));
    if (done > run_.attempt()) {
      settle(std::nullopt, nullptr);
      run_.miss(done - run_.attempt());
    }
  }
  notes_.add(reading);
}

void Story::on_evaluation(const Reading& reading) {
  if (!reading.valid_loss || std::isfinite(*reading.valid_loss)) return;
  domain::AttemptDigest& digest = run_.next();
  digest.phase = domain::Phase::kEval;
  digest.loss = reading.valid_loss;
  digest.step = place_ ? place_->done : static_cast<std::int64_t>(run_.attempt());
  ++beyond_;
  run_.tell(reading.line, reading.time_ms);
}

void Story::on_record(const Reading& reading) {
  if (!has_numbers(reading)) {
    flush_record();
    if (reading.valid_loss) {
      if (const auto place = places_.of(reading)) {
        if (place->restarted) return restart(reading);
        if (!place_ || place->done != place_->done) settle(place, nullptr);
      }
      return on_evaluation(reading);
    }
    Reading progress = reading;
    progress.kind = Reading::Kind::kProgress;
    return tell(progress);
  }
  skips_[reading.scaler.value_or(0)].record(reading);
  if (auto difference = skips_[reading.scaler.value_or(0)].take_difference()) notes_.add(std::move(*difference), reading.line);
  if (reading.rank) {
    if (!leader_) leader_ = reading.rank;
    if (*leader_ != *reading.rank) {
      // Other ranks' records say the same, save what is lost on one of them alone.
      if (reading.loss && std::isnan(*reading.loss) && reading.loss_span != Reading::Span::kTotal && held_) {
        held_->loss = reading.loss;
        held_->loss_now.reset();
      }
      return;
    }
  }
  if (held_ && reading.step && held_->step == reading.step && held_->file == reading.file && pending_.empty()) {
    // The same step again: more of its numbers, or another rank's line.
    const bool lost = reading.loss && !std::isfinite(*reading.loss) && held_->loss && std::isfinite(*held_->loss);
    if (!lost) return merge(*held_, reading);
  }
  if (!held_ && told_record_ && repeats(*told_record_, reading)) return;
  flush_record();
  held_ = reading;
}

void Story::flush_record() {
  if (!held_) return;
  told_record_ = std::move(held_);
  held_.reset();
  newest_line_ = told_record_->line;
  const auto place = places_.of(*told_record_);
  if (place && place->restarted) {
    const Reading record = *told_record_;
    settle(std::nullopt, nullptr);
    // Its lines so far belong to the run before; what comes is a new one.
    fresh_ = true;
    ahead_.push_front(record);
    begin_run(record, 1);
    ahead_.pop_front();
    settle(places_.of(record), &record);
    return;
  }
  settle(place, &*told_record_);
}

}  // namespace scalewatch::logimport
