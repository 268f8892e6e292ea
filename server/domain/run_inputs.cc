// What each input does to a run_.
#include "server/domain/run_fold.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "server/domain/blame.h"

namespace scalewatch::domain {

namespace {

// Nobody of it was heard of for so long that nobody will be.
bool is_gone(const Liveness& input, const Thresholds& thresholds) {
  const auto heard = [&](const Liveness::Seen& seen) { return input.now - seen.last_seen < thresholds.run_gone_after_ms; };
  return thresholds.run_gone_after_ms > 0 && std::none_of(input.ranks.begin(), input.ranks.end(), heard);
}

std::string silence_text(TimeMs silence) {
  constexpr TimeMs kHour = 3'600'000;
  return silence >= 2 * kHour ? std::to_string(silence / kHour) + " h" : std::to_string(silence / 1000) + " s";
}

std::optional<PastSegment> what_a_resume_needs(RunModel& run) {
  // A segment in which nothing was reported hides none before it.
  if (!run.first_step) return std::move(run.segment_before);
  PastSegment past;
  past.first_step = *run.first_step;
  past.last_step = run.last_step;
  for (ScalerTrack& track : run.scalers) {
    past.scalers[track.info.name] = {track.applied + track.partial > 0, track.scale, std::move(track.changes)};
  }
  return past;
}

}  // namespace

void RunFold::on(const SegmentOpened& input) {
  sink_.resolve_all();
  sink_.new_segment();
  std::optional<PastSegment> past = what_a_resume_needs(run_);
  run_ = RunModel();
  run_.segment_before = std::move(past);
  run_.now = input.now;
  run_.segment = input.segment;
  run_.segment_started = input.now;
  rules_ = make_rules();
  looking_ = who_looks();
  had_tensor_faults_ = true;
  pending_.clear();
  recent_.clear();
  end_told_ = false;
}

void RunFold::on(const RankJoined& input) {
  ensure_segment(input.now);
  const bool is_new = !run_.ranks.contains(input.rank);
  RankInfo& rank = rank_info(input.rank);
  if (rank.left) {
    rank.left = false;
    ++run_.present;
  } else if (!is_new) {
    run_.replaced = input.now;
  }
  rank.lost = false;
  rank.tensor_faults.clear();
  rank.started_after = run_.newest;
  rank.host = input.host;
  rank.pid = input.pid;
  rank.gpu_uuid = input.gpu_uuid;
  rank.optimizers = input.optimizers;
  run_.world_size = input.world_size;
  run_.framework = input.framework;
  run_.compute_dtype = input.compute_dtype;
  run_.from_log = input.from_log;
  map_scalers(rank, input.scalers);
  // A restarted process has loaded its state anew; if it is still poisoned its reports will say so.
  forget_poison(input.rank);
  end_told_ = false;
  lead_if_lower(rank);
}

void RunFold::map_scalers(RankInfo& rank, const std::vector<ScalerInfo>& scalers) {
  rank.scaler_tracks.clear();
  std::vector<std::string> names;
  for (std::size_t i = 0; i < scalers.size() && i < RunModel::kMaxScalers; ++i) {
    ScalerInfo info = scalers[i];
    if (std::find(names.begin(), names.end(), info.name) != names.end()) info.name += std::string("#") + std::to_string(i);
    names.push_back(info.name);
    const auto declared = std::count_if(rank.optimizers.begin(), rank.optimizers.end(),
                                        [&](const OptimizerInfo& optimizer) { return optimizer.scaler == i; });
    map_scaler(rank, info, static_cast<std::uint32_t>(declared));
  }
}

void RunFold::on(const RankLeft& input) {
  const auto found = run_.ranks.find(input.rank);
  if (found == run_.ranks.end() || found->second.left) return;
  found->second.left = true;
  found->second.tensor_faults.clear();
  found->second.lost = false;
  --run_.present;
  replace_leader(input.rank);
  each_rule([&](Rule& rule, const RuleContext& ctx) { rule.on_left(input.rank, ctx); });
  if (run_.all_left()) end();
}

void RunFold::on(const AttemptDigest& input) {
  ensure_segment(input.now);
  RankInfo& rank = rank_info(input.rank);
  if (input.retrospective) {
    add_detail(input);
    return;
  }
  rank.last_attempt = std::max(rank.last_attempt, input.attempt);
  rank.last_report = input.now;
  if (!input.declared.empty()) {
    map_scalers(rank, input.declared);
    lead_if_lower(rank);
  }
  if (!run_.first_step) run_.first_step = input.step;
  run_.newest = std::max(run_.newest, input.attempt);
  if (input.lr) run_.lr = input.lr;
  if (input.statistics_lost != LossCause::kNone) {
    rank.losses[input.statistics_lost].add_thinned(input.attempt);
    const LossSeen loss{input.rank, input.statistics_lost, 0, 1, input.attempt};
    each_rule([&](Rule& rule, const RuleContext& ctx) { rule.on_loss(loss, ctx); });
  }

  JoinedAttempt* joined = nullptr;
  const bool ahead = !pending_.empty() && pending_.first().attempt < input.attempt;
  if (input.attempt > run_.closed) {
    joined = pending_.find(input.attempt);
    if (joined == nullptr && pending_.size() < kMaxPending) joined = &pending_.add(input.attempt);
  }
  Few<ScalerReport> late;
  Few<ScalerReport>* told = &late;
  const RankReport* report = nullptr;
  if (joined != nullptr && !std::binary_search(joined->ranks.begin(), joined->ranks.end(), input.rank)) {
    RankReport& fresh = joined->join(input);
    report = &fresh;
    told = &fresh.scalers;
  }
  for (const ScalerObservation& seen : input.scalers) {
    const auto track = track_of(rank, seen.scaler);
    if (!track) continue;
    ScalerReport& scaler = told->emplace_back();
    scaler.track = *track;
    scaler.seen = seen;
  }
  // One that runs ahead waits: what rules say of an attempt knows whom those before it blame.
  if (ahead) return;
  for (const ScalerReport& scaler : *told) {
    if (run_.scalers[scaler.track].leader == input.rank) step(scaler, input.rank, input.attempt, input.step, report);
  }
}

void RunFold::on(const AttemptClosed& input) {
  while (!pending_.empty() && pending_.first().attempt <= input.attempt) {
    JoinedAttempt& joined = pending_.first();
    if (joined.attempt == input.attempt && !input.missing.empty()) joined.missing = input.missing;
    close(joined);
    pending_.drop_first();
    if (!pending_.empty()) step_first(pending_.first());
  }
  run_.closed = std::max(run_.closed, input.attempt);
}

void RunFold::on(const Liveness& input) {
  const bool ended = all_silent(input, thresholds_);
  if (ended && is_gone(input, thresholds_)) {
    end();
    sink_.resolve_all("the run is gone: nothing was heard of it for " + silence_text(thresholds_.run_gone_after_ms));
    return;
  }
  const bool alive = std::any_of(input.ranks.begin(), input.ranks.end(), [&](const Liveness::Seen& seen) {
    return input.now - seen.last_seen <= thresholds_.rank_alive_within_ms;
  });
  for (const Liveness::Seen& seen : input.ranks) {
    const auto found = run_.ranks.find(seen.rank);
    if (found == run_.ranks.end() || found->second.left) continue;
    const bool silent = input.now - seen.last_seen >= thresholds_.rank_lost_after_ms;
    if (silent && alive && !found->second.lost) {
      found->second.lost = true;
      replace_leader(seen.rank);
    } else if (!silent) {
      found->second.lost = false;
      lead_if_lower(found->second);
    }
  }
  each_rule([&](Rule& rule, const RuleContext& ctx) { rule.on_liveness(input, ctx); });
  if (ended) {
    end();
  } else {
    end_told_ = false;
  }
}

void RunFold::on(const ReportsLost& input) {
  // Of a client that belongs to an older segment: the run has moved on.
  const auto found = run_.ranks.find(input.rank);
  if (found == run_.ranks.end() || input.last_seq < input.first_seq) return;
  found->second.losses[input.cause].add_reports(input.first_seq, input.last_seq);
  const LossSeen loss{input.rank, input.cause, input.last_seq - input.first_seq + 1, 0, run_.newest};
  each_rule([&](Rule& rule, const RuleContext& ctx) { rule.on_loss(loss, ctx); });
}

void RunFold::on(const Acknowledged& input) {
  sink_.acknowledge(input.finding_id, input.who, input.comment);
}

void RunFold::on(const ServerLag& input) {
  if (run_.ranks.empty()) return;
  each_rule([&](Rule& rule, const RuleContext& ctx) { rule.on_lag(input, ctx); });
}

void RunFold::on(const RulesChanged& input) {
  if (input.rank) return;
  sink_.say_all();
  thresholds_ = *input.rules;
  sink_.resolve_off();
}

void RunFold::end() {
  if (end_told_) return;
  end_told_ = true;
  each_rule([](Rule& rule, const RuleContext& ctx) { rule.on_end(ctx); });
}

}  // namespace scalewatch::domain
