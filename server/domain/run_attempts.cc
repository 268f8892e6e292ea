// How attempts are taken in: by a scaler as its leader tells them, by the run once they are closed.
#include "server/domain/run_fold.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "server/domain/blame.h"

namespace scalewatch::domain {
namespace {

// Attempts that went well right before this one, by the log that counts them.
std::uint64_t passed_before(const JoinedAttempt& joined) {
  std::uint64_t most = 0;
  for (const RankReport& report : joined.reports) {
    for (const ScalerReport& scaler : report.scalers) most = std::max(most, scaler.seen.applied_before);
  }
  return most;
}

}  // namespace

void RunFold::step(const ScalerReport& scaler, Rank rank, Attempt attempt, std::int64_t number, const RankReport* report) {
  ScalerTrack& track = run_.scalers[scaler.track];
  if (attempt <= track.last_attempt) return;
  ScalerStep moved = advance(track, scaler.seen, run_.rank(rank), rank, attempt, number, run_.world_size <= 1, thresholds_);
  moved.report = report;
  const RuleContext context{run_, thresholds_, sink_};
  for (Rule* rule : looking_.at_steps) rule->on_step(moved, context);
}

void RunFold::step_first(const JoinedAttempt& joined) {
  for (const RankReport& report : joined.reports) {
    for (const ScalerReport& scaler : report.scalers) {
      if (run_.scalers[scaler.track].leader == report.rank) step(scaler, report.rank, joined.attempt, report.step, &report);
    }
  }
}

RunFold::Looking RunFold::who_looks() const {
  Looking looking;
  for (const auto& rule : rules_) {
    if (rule->looks_at_steps()) looking.at_steps.push_back(rule.get());
    if (rule->looks_at_attempts()) looking.at_attempts.push_back({rule.get(), rule->only_tensor_faults()});
  }
  return looking;
}

void RunFold::close(JoinedAttempt& joined) {
  joined.sort();
  // Scalers whose leader did not report.
  for (const RankReport& report : joined.reports) {
    for (const ScalerReport& scaler : report.scalers) step(scaler, report.rank, joined.attempt, report.step, &report);
  }
  // Here and not when they come: what a rule sees at an attempt does not depend on how far ahead a rank is.
  for (RankReport& report : joined.reports) {
    const auto rank = run_.ranks.find(report.rank);
    if (rank != run_.ranks.end()) rank->second.tensor_faults = std::move(report.tensor_faults);
  }
  const bool tensor_faults =
      std::any_of(run_.ranks.begin(), run_.ranks.end(), [](const auto& rank) { return !rank.second.tensor_faults.empty(); });
  unmask(joined);
  std::optional<std::map<TensorKey, PoisonedTensor>> poisoned = poisoned_after(joined);
  ClosedAttempt closed{.joined = joined,
                       .poisoned = poisoned ? *poisoned : run_.poisoned,
                       .outcome = outcome_of(joined, run_),
                       .blame = find_blame(joined, run_, true),
                       .training = false};
  closed.training =
      std::any_of(joined.reports.begin(), joined.reports.end(), [](const RankReport& report) { return report.training(); });
  const RuleContext context{run_, thresholds_, sink_};
  const bool may_be_faults = std::exchange(had_tensor_faults_, tensor_faults) || tensor_faults;
  for (const AtAttempts& at : looking_.at_attempts) {
    if (may_be_faults || !at.only_tensor_faults) at.rule->on_attempt(closed, context);
  }

  run_.counts.add(joined, closed.outcome, closed.blame);
  switch (closed.outcome) {
    case AttemptOutcome::kApplied:
      ++run_.applied;
      break;
    case AttemptOutcome::kSkipped:
      ++run_.skipped;
      break;
    case AttemptOutcome::kPartial:
      ++run_.partial;
      break;
    case AttemptOutcome::kUnknown:
      break;
  }
  ++run_.attempts;
  run_.passed += passed_before(joined);
  run_.closed = joined.attempt;
  run_.last_step = joined.step();
  take_latest(joined);
  learn_masks(closed);
  learn_unmasked(joined);
  std::map<TensorKey, PoisonedTensor> poisoned_before;
  if (closed.blame && !run_.from_log) poisoned_before = run_.poisoned;
  if (poisoned) run_.poisoned = *std::move(poisoned);
  const Attempt suspect_before = run_.suspect_since;
  suspect(joined, closed.outcome);
  if (!closed.blame) return;
  if (closed.outcome != AttemptOutcome::kApplied) {
    run_.blames.push_back({joined.attempt, joined.step(), *closed.blame, lone_rank(joined)});
    if (run_.blames.size() > RunModel::kBlames) run_.blames.pop_front();
    sink_.refresh_blame();
  }
  if (run_.from_log) return;  // no detail comes late
  joined.replicas.clear();
  recent_.push_back({std::move(joined), std::move(poisoned_before), suspect_before});
  if (recent_.size() > kMaxRecent) recent_.pop_front();
}

void RunFold::take_latest(const JoinedAttempt& joined) {
  bool loss = false;
  bool norm = false;
  for (const RankReport& report : joined.reports) {
    if (!report.training()) continue;
    if (report.loss && !loss) run_.loss = report.loss;
    if (report.grad_norm && !norm) run_.grad_norm = report.grad_norm;
    loss = loss || report.loss.has_value();
    norm = norm || report.grad_norm.has_value();
  }
}

void RunFold::unmask(JoinedAttempt& joined) const {
  // The first applied attempts teach the masks; of a list that is full nobody knows which are not on it.
  if (joined.non_finite.empty() || run_.from_log || run_.applied < thresholds_.mask_samples ||
      run_.masks.size() >= RunModel::kMaxMasks) {
    return;
  }
  for (TensorAt& tensor : joined.non_finite) {
    if (tensor.role != Role::kActivation || tensor.neg_inf == 0 || run_.masks.contains({tensor.role, tensor.name})) continue;
    if (!std::binary_search(run_.unmasked.begin(), run_.unmasked.end(), fnv1a(tensor.name))) continue;
    tensor.neg_inf_is_new = true;
    std::vector<Rank> ranks;
    std::set_union(tensor.ranks.begin(), tensor.ranks.end(), tensor.masked.begin(), tensor.masked.end(),
                   std::back_inserter(ranks));
    tensor.ranks = std::move(ranks);
    tensor.masked.clear();
  }
}

void RunFold::learn_unmasked(const JoinedAttempt& joined) {
  for (const RankReport& report : joined.reports) {
    if (report.unmasked.empty()) continue;
    std::vector<std::uint64_t> fresh;  // mostly none: the ranks tell the same names
    std::copy_if(report.unmasked.begin(), report.unmasked.end(), std::back_inserter(fresh),
                 [&](std::uint64_t name) { return !std::binary_search(run_.unmasked.begin(), run_.unmasked.end(), name); });
    fresh.resize(std::min(fresh.size(), RunModel::kMaxUnmasked - run_.unmasked.size()));
    if (fresh.empty()) continue;
    run_.unmasked.insert(run_.unmasked.end(), fresh.begin(), fresh.end());
    std::sort(run_.unmasked.begin(), run_.unmasked.end());
  }
}

void RunFold::learn_masks(const ClosedAttempt& closed) {
  if (closed.blame || closed.outcome != AttemptOutcome::kApplied) return;
  for (const TensorAt& tensor : closed.joined.non_finite) {
    if (only_neg_inf(tensor) && run_.masks.size() < RunModel::kMaxMasks) run_.masks[{tensor.role, tensor.name}] = 1;
  }
}

void RunFold::suspect(const JoinedAttempt& joined, AttemptOutcome outcome) {
  const bool saw_state = std::any_of(joined.reports.begin(), joined.reports.end(),
                                     [](const RankReport& report) { return report.observed_parameters; });
  const bool bad_state =
      std::any_of(joined.non_finite.begin(), joined.non_finite.end(), [](const TensorAt& t) { return is_state(t.role); });
  if (saw_state && !bad_state) {
    run_.suspect_since = 0;
  } else if (run_.suspect_since == 0 && gradients_non_finite(joined) &&
             (outcome == AttemptOutcome::kApplied || outcome == AttemptOutcome::kUnknown)) {
    run_.suspect_since = joined.attempt;
    run_.suspect_since_step = joined.step();
  }
}

void RunFold::learn_masks(const AttemptDigest& detail) {
  const bool blamed = std::any_of(run_.blames.begin(), run_.blames.end(),
                                  [&](const PastBlame& past) { return past.attempt == detail.attempt; });
  // Of attempts before the oldest one that is remembered nobody knows any more what was wrong with them.
  const bool forgotten = recent_.size() >= kMaxRecent && detail.attempt < recent_.front().joined.attempt;
  if (blamed || forgotten || detail.attempt > run_.closed || !detail.table) return;
  for (const NonFiniteTensor& bad : detail.non_finite) {
    if (bad.id >= detail.table->size() || run_.masks.size() >= RunModel::kMaxMasks) continue;
    const TensorInfo& info = (*detail.table)[bad.id];
    if (info.role == Role::kActivation && bad.nan == 0 && bad.pos_inf == 0) run_.masks[{info.role, info.name}] = 1;
  }
}

std::optional<std::map<TensorKey, PoisonedTensor>> RunFold::poisoned_after(const JoinedAttempt& joined) const {
  const auto is_of_state = [](const TensorAt& tensor) { return is_state(tensor.role); };
  const auto recovers = [](const RankReport& report) { return !report.recovered.empty(); };
  if (std::none_of(joined.non_finite.begin(), joined.non_finite.end(), is_of_state) &&
      std::none_of(joined.reports.begin(), joined.reports.end(), recovers)) {
    return std::nullopt;
  }
  std::map<TensorKey, PoisonedTensor> poisoned = run_.poisoned;
  for (const RankReport& report : joined.reports) {
    for (const TensorKey& key : report.recovered) {
      const auto found = poisoned.find(key);
      if (found == poisoned.end()) continue;
      std::erase(found->second.ranks, report.rank);
      if (found->second.ranks.empty()) poisoned.erase(found);
    }
  }
  for (const TensorAt& tensor : joined.non_finite) {
    if (!is_state(tensor.role)) continue;
    const TensorKey key{tensor.role, tensor.name};
    if (!poisoned.contains(key) && poisoned.size() >= RunModel::kMaxPoisoned) continue;
    const auto [entry, fresh] = poisoned.try_emplace(key);
    if (fresh) entry->second = {tensor.forward_index, joined.attempt, joined.step(), {}};
    std::vector<Rank> ranks;
    std::set_union(entry->second.ranks.begin(), entry->second.ranks.end(), tensor.ranks.begin(), tensor.ranks.end(),
                   std::back_inserter(ranks));
    entry->second.ranks = std::move(ranks);
  }
  return poisoned;
}

void RunFold::add_detail(const AttemptDigest& digest) {
  if (JoinedAttempt* const waiting = pending_.find(digest.attempt)) {
    waiting->join_detail(digest);
    return;
  }
  const auto at = std::find_if(recent_.begin(), recent_.end(),
                               [&](const RecentAttempt& past) { return past.joined.attempt == digest.attempt; });
  if (at == recent_.end()) {
    learn_masks(digest);
    return;
  }
  at->joined.join_detail(digest);
  unmask(at->joined);
  RunModel then = run_;
  then.poisoned = at->poisoned_before;
  then.suspect_since = at->suspect_before;
  const auto blame = find_blame(at->joined, then, true);
  if (!blame) return;
  for (PastBlame& past : run_.blames) {
    if (past.attempt == digest.attempt) past.blame = *blame;
  }
  sink_.refine_blame(digest.attempt, *blame);
  sink_.refresh_blame();
}

}  // namespace scalewatch::domain
