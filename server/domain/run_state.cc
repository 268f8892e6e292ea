#include "server/domain/run_state.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "server/domain/blame.h"
#include "server/domain/rules/rule.h"
#include "server/domain/scaler_track.h"
#include "server/domain/sink.h"

namespace scalewatch::domain {
namespace {

constexpr std::uint32_t kMagic = 0x4e555253;  // "SRUN"
constexpr std::uint32_t kVersion = 1;
// The engine closes an attempt when a rank is 8 ahead; a rank that runs away further is not joined.
constexpr std::size_t kMaxPending = 32;
// Closed attempts whose blame late detail may still refine.
constexpr std::size_t kMaxRecent = 4;

// A blamed attempt with what was known before it, for detail that comes late.
struct RecentAttempt {
  JoinedAttempt joined;
  std::map<TensorKey, PoisonedTensor> poisoned_before;
  Attempt suspect_before = 0;
  template <class A>
  void persist(A& a) {
    a(joined, poisoned_before, suspect_before);
  }
};

}  // namespace

struct RunState::Impl {
  explicit Impl(const Thresholds& t) : thresholds(t) {}

  Thresholds thresholds;
  RunModel run;
  Sink sink{run, thresholds};
  std::vector<std::unique_ptr<Rule>> rules = make_rules();
  std::map<Attempt, JoinedAttempt> pending;
  std::deque<RecentAttempt> recent;
  bool end_told = false;  // rules saw the end of the run, and nobody came back since

  [[nodiscard]] RuleContext context() { return {run, thresholds, sink}; }
  template <class Call>
  void each_rule(Call call) {
    const RuleContext ctx = context();
    for (const auto& rule : rules) call(*rule, ctx);
  }

  void on(const SegmentOpened& input) {
    sink.resolve_all();
    sink.new_segment();
    run = RunModel();
    run.segment = input.segment;
    run.segment_started = input.now;
    rules = make_rules();
    pending.clear();
    recent.clear();
    end_told = false;
  }

  void on(const RankJoined& input) {
    ensure_segment(input.now);
    RankInfo& rank = rank_info(input.rank);
    if (rank.left) {
      rank.left = false;
      ++run.present;
    }
    rank.lost = false;
    rank.host = input.host;
    rank.pid = input.pid;
    rank.gpu_uuid = input.gpu_uuid;
    rank.optimizers = input.optimizers;
    rank.scaler_tracks.clear();
    std::vector<std::string> names;
    for (std::size_t i = 0; i < input.scalers.size() && i < RunModel::kMaxScalers; ++i) {
      ScalerInfo info = input.scalers[i];
      if (std::find(names.begin(), names.end(), info.name) != names.end()) info.name += std::string("#") + std::to_string(i);
      names.push_back(info.name);
      const auto declared = std::count_if(input.optimizers.begin(), input.optimizers.end(),
                                          [&](const OptimizerInfo& optimizer) { return optimizer.scaler == i; });
      map_scaler(rank, info, static_cast<std::uint32_t>(declared));
    }
    run.world_size = input.world_size;
    run.framework = input.framework;
    run.compute_dtype = input.compute_dtype;
    // A restarted process has loaded its state anew; if it is still poisoned its reports will say so.
    forget_poison(input.rank);
    end_told = false;
    lead_if_lower(rank);
  }

  void on(const RankLeft& input) {
    const auto found = run.ranks.find(input.rank);
    if (found == run.ranks.end() || found->second.left) return;
    found->second.left = true;
    found->second.lost = false;
    --run.present;
    replace_leader(input.rank);
    each_rule([&](Rule& rule, const RuleContext& ctx) { rule.on_left(input.rank, ctx); });
    if (run.all_left()) end();
  }

  void on(const AttemptDigest& input) {
    ensure_segment(input.now);
    RankInfo& rank = rank_info(input.rank);
    if (input.retrospective) {
      add_detail(input);
      return;
    }
    rank.last_attempt = std::max(rank.last_attempt, input.attempt);
    rank.last_report = input.now;
    run.newest = std::max(run.newest, input.attempt);
    if (input.lr) run.lr = input.lr;

    std::vector<ScalerReport> scalers;
    for (const ScalerObservation& seen : input.scalers) {
      if (const auto track = track_of(rank, seen.scaler)) scalers.push_back({*track, seen});
    }
    JoinedAttempt* joined = nullptr;
    if (input.attempt > run.closed) {
      const auto at = pending.find(input.attempt);
      if (at != pending.end()) {
        joined = &at->second;
      } else if (pending.size() < kMaxPending) {
        joined = &pending[input.attempt];
        joined->attempt = input.attempt;
      }
    }
    if (joined != nullptr) joined->join(input, scalers);
    for (const ScalerReport& scaler : scalers) {
      if (run.scalers[scaler.track].leader == input.rank) step(scaler, input.rank, input.attempt, input.step);
    }
  }

  void on(const AttemptClosed& input) {
    while (!pending.empty() && pending.begin()->first <= input.attempt) {
      JoinedAttempt joined = std::move(pending.begin()->second);
      pending.erase(pending.begin());
      if (joined.attempt == input.attempt) joined.missing = input.missing;
      close(std::move(joined));
    }
    run.closed = std::max(run.closed, input.attempt);
  }

  void on(const Liveness& input) {
    const bool ended = all_silent(input, thresholds);
    const bool alive = std::any_of(input.ranks.begin(), input.ranks.end(), [&](const Liveness::Seen& seen) {
      return input.now - seen.last_seen <= thresholds.rank_alive_within_ms;
    });
    for (const Liveness::Seen& seen : input.ranks) {
      const auto found = run.ranks.find(seen.rank);
      if (found == run.ranks.end() || found->second.left) continue;
      const bool silent = input.now - seen.last_seen >= thresholds.rank_lost_after_ms;
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
      end_told = false;
    }
  }

  void on(const ReportsLost& input) {
    if (input.last_seq < input.first_seq) return;
    rank_info(input.rank).lost_reports += input.last_seq - input.first_seq + 1;
  }

  void on(const Acknowledged& input) { sink.acknowledge(input.finding_id, input.who, input.comment); }

  // ---- ranks and scalers ----

  void ensure_segment(TimeMs now) {
    if (run.segment != 0) return;
    run.segment = 1;
    run.segment_started = now;
  }

  RankInfo& rank_info(Rank rank) {
    const auto [entry, fresh] = run.ranks.try_emplace(rank);
    if (fresh) {
      entry->second.rank = rank;
      ++run.present;
    }
    return entry->second;
  }

  void map_scaler(RankInfo& rank, const ScalerInfo& info, std::uint32_t declared) {
    const auto known = std::find_if(run.scalers.begin(), run.scalers.end(),
                                    [&](const ScalerTrack& track) { return track.info.name == info.name; });
    if (known != run.scalers.end()) {
      known->declared_optimizers = std::max(known->declared_optimizers, declared);
      rank.scaler_tracks.push_back(static_cast<std::uint32_t>(known - run.scalers.begin()));
      return;
    }
    // Too many scalers: the rest is not watched.
    if (run.scalers.size() >= RunModel::kMaxScalers) return;
    rank.scaler_tracks.push_back(static_cast<std::uint32_t>(run.scalers.size()));
    run.scalers.push_back(make_track(info));
    run.scalers.back().declared_optimizers = declared;
  }

  // A scaler that a report names and no Hello did is followed by its number.
  std::optional<std::uint32_t> track_of(RankInfo& rank, std::uint32_t index) {
    if (index < rank.scaler_tracks.size()) return rank.scaler_tracks[index];
    if (index >= RunModel::kMaxScalers) return std::nullopt;
    while (rank.scaler_tracks.size() <= index) {
      const std::size_t before = rank.scaler_tracks.size();
      map_scaler(rank, {std::string("scaler") + std::to_string(before), {}, {}}, 0);
      if (rank.scaler_tracks.size() == before) return std::nullopt;
    }
    lead_if_lower(rank);
    return rank.scaler_tracks[index];
  }

  void lead_if_lower(const RankInfo& rank) {
    for (const std::uint32_t track : rank.scaler_tracks) {
      auto& leader = run.scalers[track].leader;
      if (!leader || rank.rank < *leader) leader = rank.rank;
    }
  }

  void replace_leader(Rank gone) {
    for (std::uint32_t track = 0; track < run.scalers.size(); ++track) {
      if (run.scalers[track].leader != gone) continue;
      run.scalers[track].leader.reset();
      for (const auto& [number, info] : run.ranks) {
        if (!info.live() ||
            std::find(info.scaler_tracks.begin(), info.scaler_tracks.end(), track) == info.scaler_tracks.end()) {
          continue;
        }
        run.scalers[track].leader = number;
        break;
      }
    }
  }

  void forget_poison(Rank rank) {
    for (auto entry = run.poisoned.begin(); entry != run.poisoned.end();) {
      std::erase(entry->second.ranks, rank);
      entry = entry->second.ranks.empty() ? run.poisoned.erase(entry) : std::next(entry);
    }
  }

  // ---- attempts ----

  void step(const ScalerReport& scaler, Rank rank, Attempt attempt, std::int64_t number) {
    ScalerTrack& track = run.scalers[scaler.track];
    if (attempt <= track.last_attempt) return;
    const ScalerStep moved =
        advance(track, scaler.seen, run.rank(rank), rank, attempt, number, run.world_size <= 1, thresholds);
    each_rule([&](Rule& rule, const RuleContext& ctx) { rule.on_step(moved, ctx); });
  }

  void close(JoinedAttempt joined) {
    // Scalers whose leader did not report.
    for (const RankReport& report : joined.reports) {
      for (const ScalerReport& scaler : report.scalers) step(scaler, report.rank, joined.attempt, report.step);
    }
    std::map<TensorKey, PoisonedTensor> poisoned = poisoned_after(joined);
    ClosedAttempt closed{.joined = joined,
                         .poisoned = poisoned,
                         .outcome = outcome_of(joined, run),
                         .blame = find_blame(joined, run, true),
                         .training = false};
    closed.training =
        std::any_of(joined.reports.begin(), joined.reports.end(), [](const RankReport& report) { return report.training(); });
    each_rule([&](Rule& rule, const RuleContext& ctx) { rule.on_attempt(closed, ctx); });

    switch (closed.outcome) {
      case AttemptOutcome::kApplied:
        ++run.applied;
        break;
      case AttemptOutcome::kSkipped:
        ++run.skipped;
        break;
      case AttemptOutcome::kPartial:
        ++run.partial;
        break;
      case AttemptOutcome::kUnknown:
        break;
    }
    ++run.attempts;
    run.closed = joined.attempt;
    run.last_step = joined.step();
    take_latest(joined);
    learn_masks(closed);
    const std::map<TensorKey, PoisonedTensor> poisoned_before = std::exchange(run.poisoned, std::move(poisoned));
    const Attempt suspect_before = run.suspect_since;
    suspect(joined, closed.outcome);
    if (!closed.blame) return;
    if (closed.outcome != AttemptOutcome::kApplied) {
      run.blames.push_back({joined.attempt, joined.step(), *closed.blame, lone_rank(joined)});
      if (run.blames.size() > RunModel::kBlames) run.blames.pop_front();
      sink.refresh_blame();
    }
    joined.replicas.clear();
    recent.push_back({std::move(joined), poisoned_before, suspect_before});
    if (recent.size() > kMaxRecent) recent.pop_front();
  }

  void take_latest(const JoinedAttempt& joined) {
    bool loss = false;
    bool norm = false;
    for (const RankReport& report : joined.reports) {
      if (!report.training()) continue;
      if (report.loss && !loss) run.loss = report.loss;
      if (report.grad_norm && !norm) run.grad_norm = report.grad_norm;
      loss = loss || report.loss.has_value();
      norm = norm || report.grad_norm.has_value();
    }
  }

  // An activation that holds -Inf while the step is fine holds it on purpose.
  void learn_masks(const ClosedAttempt& closed) {
    if (closed.blame || closed.outcome != AttemptOutcome::kApplied) return;
    for (const TensorAt& tensor : closed.joined.non_finite) {
      if (only_neg_inf(tensor) && run.masks.size() < RunModel::kMaxMasks) run.masks[{tensor.role, tensor.name}] = 1;
    }
  }

  // Did this attempt perhaps poison state that nobody looked at?
  void suspect(const JoinedAttempt& joined, AttemptOutcome outcome) {
    const bool saw_state = std::any_of(joined.reports.begin(), joined.reports.end(),
                                       [](const RankReport& report) { return report.observed_parameters; });
    const bool bad_state =
        std::any_of(joined.non_finite.begin(), joined.non_finite.end(), [](const TensorAt& t) { return is_state(t.role); });
    if (saw_state && !bad_state) {
      run.suspect_since = 0;
    } else if (run.suspect_since == 0 && gradients_non_finite(joined) &&
               (outcome == AttemptOutcome::kApplied || outcome == AttemptOutcome::kUnknown)) {
      run.suspect_since = joined.attempt;
      run.suspect_since_step = joined.step();
    }
  }

  std::map<TensorKey, PoisonedTensor> poisoned_after(const JoinedAttempt& joined) const {
    std::map<TensorKey, PoisonedTensor> poisoned = run.poisoned;
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

  void add_detail(const AttemptDigest& digest) {
    if (const auto at = pending.find(digest.attempt); at != pending.end()) {
      at->second.join_detail(digest);
      return;
    }
    const auto at = std::find_if(recent.begin(), recent.end(),
                                 [&](const RecentAttempt& past) { return past.joined.attempt == digest.attempt; });
    if (at == recent.end()) return;
    at->joined.join_detail(digest);
    for (RankReport& report : at->joined.reports) {
      if (report.rank != digest.rank) continue;
      report.observed_gradients |= digest.observed_gradients;
      report.observed_activations |= digest.observed_activations;
    }
    RunModel then = run;
    then.poisoned = at->poisoned_before;
    then.suspect_since = at->suspect_before;
    const auto blame = find_blame(at->joined, then, true);
    if (!blame) return;
    for (PastBlame& past : run.blames) {
      if (past.attempt == digest.attempt) past.blame = *blame;
    }
    sink.refine_blame(digest.attempt, *blame);
    sink.refresh_blame();
  }

  void end() {
    if (end_told) return;
    end_told = true;
    each_rule([](Rule& rule, const RuleContext& ctx) { rule.on_end(ctx); });
  }

  template <class A>
  void persist(A& a) {
    a(run, sink, pending, recent, end_told);
    for (const auto& rule : rules) {
      std::string name(rule->name());
      a(name);
      if (name != rule->name()) throw std::runtime_error("state is of other rules: found " + std::string(name));
      if constexpr (A::kLoading) {
        rule->load(a);
      } else {
        rule->save(a);
      }
    }
  }
};

RunState::RunState(Thresholds thresholds) : impl_(std::make_unique<Impl>(thresholds)) {}
RunState::~RunState() = default;
RunState::RunState(RunState&&) noexcept = default;
RunState& RunState::operator=(RunState&&) noexcept = default;

std::vector<FindingEvent> RunState::fold(const Input& input) {
  std::visit(
      [&](const auto& concrete) {
        impl_->sink.begin(concrete.now);
        impl_->on(concrete);
      },
      input);
  // Every rank said goodbye: nothing can be done any more, whatever still closes.
  if (impl_->run.all_left()) impl_->sink.resolve_all();
  return impl_->sink.take_events();
}

RunView RunState::view() const {
  const RunModel& run = impl_->run;
  RunView view;
  view.segment = run.segment;
  view.segment_started = run.segment_started;
  view.world_size = run.world_size;
  view.framework = run.framework;
  view.compute_dtype = run.compute_dtype;
  view.attempts = run.attempts;
  view.applied = run.applied;
  view.skipped = run.skipped;
  view.partial = run.partial;
  view.last_step = run.last_step;
  view.loss = run.loss;
  view.grad_norm = run.grad_norm;
  for (const ScalerTrack& track : run.scalers) {
    ScalerView& scaler = view.scalers.emplace_back();
    scaler.info = track.info;
    scaler.scale = track.scale;
    scaler.scale_first = track.scale_first;
    scaler.scale_min = track.scale_min;
    scaler.growth_tracker = track.growth_tracker;
    scaler.applied = track.applied;
    scaler.skipped = track.skipped;
    scaler.growths = track.growths;
    scaler.consecutive_skips = track.consecutive_skips;
    scaler.calibrating = track.calibrating();
    scaler.skip_ratio = track.skip_ratio();
  }
  for (const auto& [number, info] : run.ranks) {
    view.ranks.push_back(
        {number, info.host, info.pid, info.gpu_uuid, info.left, info.last_attempt, info.last_report, info.lost_reports});
  }
  view.open = impl_->sink.open();
  return view;
}

std::string RunState::save() const {
  Writer writer(kMagic, kVersion);
  impl_->persist(writer);
  return std::move(writer).finish();
}

void RunState::load(std::string_view bytes) {
  auto fresh = std::make_unique<Impl>(impl_->thresholds);
  Reader reader(bytes, kMagic, kVersion);
  fresh->persist(reader);
  reader.finish();
  impl_ = std::move(fresh);
}

}  // namespace scalewatch::domain
