#include "server/logimport/log_run.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace scalewatch::logimport {

using domain::AttemptDigest;
using domain::Finding;
using domain::FindingEvent;
using domain::Outcome;

void decide(domain::ScalerObservation& scaler, Outcome outcome) {
  domain::OptimizerObservation& one = scaler.optimizers.emplace_back();
  one.outcome = outcome;
  if (outcome == Outcome::kSkipped) one.found_inf_decided = 1;
}

LogRun::LogRun(const domain::Thresholds& thresholds, InputTap tap) : state_(thresholds), tap_(std::move(tap)) {}

void LogRun::begin(std::uint64_t line, std::uint32_t file) {
  if (open_ && attempt() == 0 && scalers_.empty()) {  // nothing was told since the last one
    if (!parts_.empty() && parts_.size() == segment_) parts_.back() = {file, line, before_ + 1, false};
    return;
  }
  end();
  ++segment_;
  open_ = true;
  before_ += attempt();
  if (parts_.size() < kMaxParts) parts_.push_back({file, line, before_ + 1, false});
  attempt_ = passed_ = segment_applied_ = 0;
  scalers_.clear();
  declared_ = true;
  lines_.clear();
  newest_line_ = line;
  catch_up();
  fold(domain::SegmentOpened{segment_, now_});
  domain::RankJoined joined;
  joined.from_log = true;
  joined.framework = kFramework;
  joined.now = now_;
  fold(joined);
}

void LogRun::end() {
  if (!open_) return;
  flush_passed();
  catch_up();
  fold(domain::RankLeft{0, "end of the log", now_});
  open_ = false;
}

void LogRun::declare(std::uint32_t scaler, std::string_view policy, const std::map<std::string, double>& parameters) {
  if (!open_) begin(newest_line_);
  const auto known = std::any_of(scalers_.begin(), scalers_.end(), [&](const Scaler& s) { return s.number == scaler; });
  if (known || scalers_.size() >= 16) return;
  domain::ScalerInfo info;
  // The first goes without a name: most logs have only one.
  info.name = scalers_.empty() ? std::string() : std::to_string(scaler);
  info.policy = policy;
  info.parameters = parameters;
  scalers_.push_back({scaler, std::move(info)});
  declared_ = false;
}

void LogRun::pass(std::uint64_t attempts) {
  if (!open_) begin(newest_line_);
  passed_ += attempts;
}

void LogRun::miss(std::uint64_t attempts) {
  if (!open_) begin(newest_line_);
  flush_passed();
  attempt_ += attempts;
}

void LogRun::count_skips(std::uint64_t attempts) {
  attempt_ += attempts;
  facts_.attempts += attempts;
  facts_.skipped += attempts;
}

// What was passed must be told before anything is missed, or the file ends.
void LogRun::flush_passed() {
  if (passed_ == 0) return;
  if (scalers_.empty()) {
    attempt_ += passed_;
    facts_.attempts += passed_;
    facts_.applied += passed_;
    segment_applied_ += passed_;
    passed_ = 0;
    return;
  }
  --passed_;
  AttemptDigest& digest = next();
  digest.step = static_cast<std::int64_t>(attempt_ + passed_ + 1);
  for (const Scaler& scaler : scalers_) {
    domain::ScalerObservation& seen = digest.scalers.emplace_back();
    seen.scaler = scaler.number;
    decide(seen, Outcome::kApplied);
  }
  tell(newest_line_, std::nullopt);
}

void LogRun::tell(std::uint64_t line, std::optional<std::int64_t> time_ms) {
  if (!open_) begin(line);
  auto& digest = std::get<AttemptDigest>(told_[end_]);
  newest_line_ = line;
  if (time_ms) now_ = std::max(now_, *time_ms);
  digest.attempt = attempt_ + passed_ + 1;
  digest.now = now_;
  if (!std::exchange(declared_, true)) {
    for (const Scaler& scaler : scalers_) digest.declared.push_back(scaler.info);
  }
  bool skipped = false;
  bool applied = digest.scalers.empty() && scalers_.empty() && (digest.loss || digest.grad_norm);
  for (domain::ScalerObservation& seen : digest.scalers) {
    seen.applied_before = passed_;
    for (const auto& optimizer : seen.optimizers) {
      skipped = skipped || optimizer.outcome == Outcome::kSkipped;
      applied = applied || optimizer.outcome == Outcome::kApplied;
    }
    // From the log's number to the place in the list that was declared.
    const auto known = std::find_if(scalers_.begin(), scalers_.end(), [&](const Scaler& s) { return s.number == seen.scaler; });
    seen.scaler = static_cast<std::uint32_t>(known - scalers_.begin());
  }
  const auto unknown = [&](const auto& seen) { return seen.scaler >= scalers_.size(); };
  digest.scalers.erase(std::remove_if(digest.scalers.begin(), digest.scalers.end(), unknown), digest.scalers.end());
  facts_.attempts += passed_ + 1;
  facts_.applied += passed_ + (applied && !skipped ? 1 : 0);
  facts_.skipped += skipped ? 1 : 0;
  segment_applied_ += passed_ + (applied && !skipped ? 1 : 0);
  attempt_ = digest.attempt;
  passed_ = 0;
  if (lines_.size() >= kMaxLines) {
    catch_up();
    // The older half is thinned out: findings point back a few hundred attempts.
    std::size_t to = 0;
    for (std::size_t from = 0; from < lines_.size(); ++from) {
      if (from >= kMaxLines / 2 || from % 2 == 0) lines_[to++] = lines_[from];
    }
    lines_.resize(to);
  }
  lines_.emplace_back(digest.attempt, line);
  add_point(digest, skipped);
  if (++end_ < told_.size()) return;
  catch_up();
  first_ = end_ = 0;
}

void LogRun::catch_up() {
  while (first_ < end_) {
    const domain::Input& input = told_[first_++];
    const auto& digest = std::get<AttemptDigest>(input);
    domain::AttemptClosed closed;
    closed.attempt = digest.attempt;
    closed.now = digest.now;
    fold(input);
    fold(closed);
  }
}

void LogRun::add_point(const AttemptDigest& digest, bool skipped) {
  ScalePoint point{before_ + digest.attempt, before_ + digest.attempt, {}, {}, skipped};
  if (!digest.scalers.empty()) {
    const auto& seen = digest.scalers.front();
    for (const auto& scale : {seen.scale_before, seen.scale_after}) {
      if (!scale) continue;
      if (seen.scaler == 0) {
        if (!facts_.scale_first) facts_.scale_first = scale;
        facts_.scale_last = scale;
        facts_.scale_min = facts_.scale_min ? std::fmin(*facts_.scale_min, *scale) : *scale;
      }
      point.low = point.low ? std::fmin(*point.low, *scale) : *scale;
      point.high = point.high ? std::fmax(*point.high, *scale) : *scale;
    }
  }
  if (!point.low && !skipped) return;
  const auto merge = [](ScalePoint& into, const ScalePoint& from) {
    into.last_attempt = from.last_attempt;
    if (from.low) into.low = into.low ? std::fmin(*into.low, *from.low) : *from.low;
    if (from.high) into.high = into.high ? std::fmax(*into.high, *from.high) : *from.high;
    into.skipped = into.skipped || from.skipped;
  };
  if (!points_.empty() && point.last_attempt - points_.back().first_attempt < per_point_) {
    merge(points_.back(), point);
    return;
  }
  points_.push_back(point);
  if (points_.size() < kMaxPoints) return;
  per_point_ = std::max(per_point_ * 2, (points_.back().last_attempt - points_.front().first_attempt) * 2 / kMaxPoints);
  std::size_t to = 0;
  for (std::size_t from = 0; from < points_.size(); from += 2) {
    ScalePoint merged = points_[from];
    if (from + 1 < points_.size()) merge(merged, points_[from + 1]);
    points_[to++] = merged;
  }
  points_.resize(to);
}

std::uint64_t LogRun::line_of(domain::Attempt attempt) const {
  const auto after = std::lower_bound(lines_.begin(), lines_.end(), attempt,
                                      [](const auto& entry, domain::Attempt wanted) { return entry.first < wanted; });
  return after != lines_.end() ? after->second : newest_line_;
}

void LogRun::fold(const domain::Input& input) {
  if (tap_) tap_(input);
  for (FindingEvent& event : state_.fold(input)) {
    const bool news = event.change == FindingEvent::Change::kOpened || event.change == FindingEvent::Change::kEscalated;
    keep(std::move(event.finding), news);
  }
}

void LogRun::keep(Finding finding, bool news) {
  const std::tuple key(finding.segment, finding.rule, finding.subject);
  const auto known = findings_.find(key);
  finding.open = true;  // a log is judged by all that it shows
  if (known == findings_.end()) {
    if (findings_.size() >= kMaxFindings) return;
    finding.line = line_of(finding.first_attempt);
    if (news && news_.size() < kMaxNews) news_.push_back(finding);
    findings_.emplace(key, std::move(finding));
    return;
  }
  Finding& kept = known->second;
  const bool same = kept.id == finding.id;
  if (!same && finding.severity <= kept.severity) {
    // The same again: it began where it began first.
    kept.last_attempt = std::max(kept.last_attempt, finding.last_attempt);
    kept.last_step = std::max(kept.last_step, finding.last_step);
    return;
  }
  finding.line = kept.line;
  if (!same) {
    finding.first_attempt = kept.first_attempt;
    finding.first_step = kept.first_step;
  }
  if (news && finding.severity > kept.severity && news_.size() < kMaxNews) news_.push_back(finding);
  kept = std::move(finding);
}

domain::Diagnosis LogRun::diagnosis() const {
  std::vector<Finding> findings;
  findings.reserve(findings_.size());
  for (const auto& [key, finding] : findings_) findings.push_back(finding);
  domain::RunFacts facts = facts_;
  facts.attempts += passed_;
  facts.applied += passed_;
  return domain::diagnose(facts, std::move(findings));
}

}  // namespace scalewatch::logimport
