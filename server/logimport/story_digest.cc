// What one attempt's digest holds of what was printed.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "server/domain/policy.h"
#include "server/logimport/story.h"

namespace scalewatch::logimport {

using domain::Outcome;

void Story::declare(std::uint32_t scaler, std::optional<double> first_scale) {
  std::map<std::string, double> parameters = parameters_;
  // The log's first attempt is the run's: what it starts from is no guess.
  const bool start = run_.attempt() == 0 && (places_.any() ? place_ && place_->done <= 1 : false);
  if (start && first_scale && *first_scale > 0 && std::isfinite(*first_scale) && policy_ != "static") {
    parameters["init_scale"] = *first_scale;
  }
  run_.declare(scaler, policy_.empty() ? std::string_view("pytorch") : policy_, parameters);
}

// The scale that a record printed, where that says what it was: no mean, and no rounding of what is known better.
std::optional<double> Story::scale_of(const Reading& record) const {
  const auto printed = record.scale ? record.scale : record.scale_after ? record.scale_after : record.scale_before;
  if (!printed || record.scale_span == Reading::Span::kInterval || record.scale_span == Reading::Span::kTotal) {
    return std::nullopt;
  }
  const auto known = scales_.find(record.scaler.value_or(0));
  if (record.scale_quantum > 0 && known != scales_.end() && known->second.now &&
      std::abs(*known->second.now - *printed) <= record.scale_quantum) {
    return known->second.now;
  }
  // Rounded to 0: all that is known is what it is less than.
  if (*printed == 0 && record.scale_quantum > 0) return record.scale_quantum / 2;
  // Rounded: the power of two times the last one that rounds to it, or the power of two.
  constexpr double kCoarse = 1e-3;
  if (record.scale_quantum > kCoarse * *printed && std::isfinite(*printed)) {
    const bool from =
        known != scales_.end() && known->second.now && *known->second.now > 0 && std::isfinite(*known->second.now);
    const double unit = from ? *known->second.now : 1.0;
    const double exact = unit * std::exp2(std::round(std::log2(*printed / unit)));
    constexpr double kHalf = 0.5 + 1e-6;
    if (std::abs(exact - *printed) <= kHalf * record.scale_quantum) return exact;
  }
  return printed;
}

void Story::observe(const Pending& event, domain::AttemptDigest& digest) {
  const Reading& r = event.reading;
  using Kind = Reading::Kind;
  domain::ScalerObservation& seen = digest.scalers.emplace_back();
  seen.scaler = r.scaler.value_or(0);
  Scale& known = scales_[seen.scaler];
  Outcome outcome = Outcome::kUnknown;
  if (!usual_ || usual_->policy != policy_) {
    const auto policy = domain::make_policy(policy_.empty() ? "pytorch" : policy_, {});
    usual_ = Usual{policy_, policy ? policy->backoff_factor() : 0.5, policy ? policy->growth_factor() : 2.0,
                   policy ? policy->floor().value_or(0) : 0.0};
  }
  const double backoff = usual_->backoff;
  switch (r.kind) {
    case Kind::kSkip: {
      outcome = Outcome::kSkipped;
      seen.scale_before = r.scale_before;
      seen.scale_after = r.scale_after ? r.scale_after : r.scale;
      if (!seen.scale_before && seen.scale_after) {
        // As it was before, if one backoff leads from there to here.
        const double before = backoff > 0 ? *seen.scale_after / backoff : *seen.scale_after;
        seen.scale_before = known.now && *known.now >= *seen.scale_after && *known.now <= before ? *known.now : before;
      } else if (seen.scale_before && !seen.scale_after) {
        seen.scale_after = std::max(*seen.scale_before * backoff, usual_->floor);
        if (*seen.scale_after > *seen.scale_before) seen.scale_after = seen.scale_before;
      }
      break;
    }
    case Kind::kHeldSkip:
      outcome = Outcome::kSkipped;
      seen.scale_before = r.scale_before ? r.scale_before : r.scale;
      seen.scale_after = seen.scale_before;
      seen.hysteresis = r.hysteresis_after;
      break;
    case Kind::kGrowth:
      outcome = Outcome::kApplied;
      seen.scale_after = r.scale_after;
      seen.scale_before = r.scale_before ? r.scale_before : known.now;
      if (!seen.scale_before) seen.scale_before = *r.scale_after / usual_->growth;
      break;
    case Kind::kFatal:
      outcome = Outcome::kSkipped;
      seen.fatal = r.detail.empty() ? "the trainer gave up" : r.detail;
      break;
    default:
      seen.scale_after = r.scale;
      if (known.now && r.scale && *r.scale > *known.now) seen.scale_before = known.now;
      break;
  }
  declare(seen.scaler, seen.scale_before);
  if (seen.scale_after) {
    known.before = seen.scale_before;
    known.now = seen.scale_after;
  }
  decide(seen, outcome);
}

void Story::fill(domain::AttemptDigest& digest, const Reading& record) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const auto mean = [](Reading::Span span) { return span == Reading::Span::kTotal; };
  const bool mean_lost = record.loss && !std::isfinite(*record.loss);
  const bool lost_before = std::exchange(mean_lost_, mean_lost);
  if (record.loss_now) {
    digest.loss = record.loss_now;
    // A loss of the interval was lost, if not this one. Of a mean since the beginning nobody knows when, and one that stays
    // lost beside finite losses is only kept so.
    if (mean_lost && !lost_before && !mean(record.loss_span)) digest.loss = record.loss;
  } else if (record.loss && (std::isfinite(*record.loss) || !mean(record.loss_span))) {
    digest.loss = record.loss;
  } else if (record.loss_part && !has_total_loss_) {
    digest.loss = record.loss_part;
  }
  // A field that vanished was NaN, unless every step of the interval was skipped.
  if (!digest.loss && record.loss_missing && counted_applied_) digest.loss = kNan;
  if (record.grad_norm && (std::isfinite(*record.grad_norm) || !mean(record.grad_norm_span)))
    digest.grad_norm = record.grad_norm;
  // One skip of many makes a mean NaN, and the others move the learning rate: of such a record that says nothing.
  const auto length = record.attempts_per_record.value_or(static_cast<std::uint64_t>(places_.interval()));
  const bool lost_mean =
      digest.grad_norm && !std::isfinite(*digest.grad_norm) && record.grad_norm_span == Reading::Span::kInterval && length != 1;
  if (!lost_mean) digest.lr = record.lr;
  digest.accuracy = record.accuracy;
}

// Clipping says when it was needed, and what it clips at follows the usual norm. A little is what it is for.
void Story::on_norm(const Reading& reading) {
  constexpr double kHard = 256;
  const double usual = reading.norm_limit.value_or(0);
  if (!reading.grad_norm || !(usual > 0) || *reading.grad_norm < kHard * usual) return;
  if (!std::exchange(norm_told_, true)) {
    tell_norm(usual, reading);
  }
  tell_norm(*reading.grad_norm, reading);
}

void Story::tell_norm(double norm, const Reading& reading) {
  if (!run_.take_back()) ++beyond_;
  domain::AttemptDigest& digest = run_.next();
  digest.step = place_ ? place_->done + static_cast<std::int64_t>(beyond_) : static_cast<std::int64_t>(run_.attempt() + 1);
  digest.grad_norm = norm;
  if (run_.has_scaler()) {
    decide(digest.scalers.emplace_back(), domain::Outcome::kUnknown);
  }
  run_.tell(reading.line, reading.time_ms);
}

}  // namespace scalewatch::logimport
