// What a run does by time: closing, liveness, lag, snapshots; and its last words before a stop or a hand-over.
#include "server/engine/run.h"

#include <algorithm>
#include <utility>

#include "server/engine/stream.h"
#include "server/engine/text.h"

namespace scalewatch::engine {

namespace {

constexpr std::int64_t kLivenessRepeatMs = 15'000;  // how often an undecided silence is looked at again
constexpr std::int64_t kLagRepeatMs = 10'000;       // and how often it is told that the server is behind
constexpr std::int64_t kQuietRepeatMs = 60'000;     // and how often a run whose ranks are there and report nothing

}  // namespace

void Run::tick() {
  const std::int64_t now = services_.clock.steady_ms();
  take_rules();
  Staged staged;
  close_due(staged);
  submit(std::move(staged));
  settle_alerts();
  check_liveness();
  check_lag();
  deliver_directives();

  Staged upkeep;
  note_who_is_here();
  stage_overview(upkeep.batch);
  publish_readings();
  const bool due = pos_ > snapshot_pos_ && now - snapshot_ms_ >= services_.options.snapshot_every.count();
  // Where the store takes none they would pile up.
  if (due && !services_.pipeline.health(context_.run_uid).degraded) stage_snapshot(upkeep.batch);
  submit(std::move(upkeep));
}

void Run::check_liveness() {
  const std::int64_t now = services_.clock.steady_ms();
  const std::int64_t wall = services_.clock.wall_ms();
  const std::int64_t lost_after = rules_->rank_lost_after_ms;
  domain::Liveness input{.ranks = {}, .now = wall, .server_up = now - since_ms_};
  bool changed = false;
  bool any_silent = false;
  bool all_silent = true;
  bool gone = rules_->run_gone_after_ms > 0;
  for (auto& [rank, slot] : slots_) {
    if (slot->segment != segment_ || slot->left) continue;
    const std::int64_t silence = silence_of(*slot, now);
    const bool silent = silence >= lost_after;
    changed = changed || silent != slot->reported_silent;
    any_silent = any_silent || silent;
    all_silent = all_silent && silent;
    gone = gone && silence >= rules_->run_gone_after_ms;
    input.ranks.push_back({rank, wall - silence, is_here(*slot, now), static_cast<domain::Phase>(slot->phase.load())});
  }
  const bool undecided = any_silent && !all_silent && now - liveness_ms_ >= kLivenessRepeatMs;
  const bool quiet = !all_silent && now - reported_ms_ >= rules_->stalled_after_ms && now - liveness_ms_ >= kQuietRepeatMs;
  const bool news = gone && !gone_told_;
  if (input.ranks.empty() || (!changed && !undecided && !quiet && !news)) return;
  gone_told_ = gone;
  for (auto& [rank, slot] : slots_) {
    if (slot->segment == segment_ && !slot->left) slot->reported_silent = silence_of(*slot, now) >= lost_after;
  }
  liveness_ms_ = now;
  plan_dirty_ = true;
  Staged staged;
  log(std::move(input), nullptr, staged);
  submit(std::move(staged));
}

void Run::reconcile_alerts(bool settled) {
  Staged staged;
  staged.all_alerts_changed = true;
  for (domain::Acknowledged& lost : services_.outbox.reconcile(context_, state_.view().open, settled, staged.batch)) {
    log(std::move(lost), nullptr, staged);
  }
  submit(std::move(staged));
  alerts_settled_ = settled;
}

// The store may have alerts of a later moment than the log that caused them: servers share alerts first, and a full disk takes
// alerts alone. Reports that clients send again cause them again, or not: attempts may be decided otherwise this time.
void Run::settle_alerts() {
  if (alerts_settled_) return;
  if (patience() != AttemptCloser::Patience::kNone) {
    settle_at_.reset();
    return;
  }
  if (!settle_at_) settle_at_ = closer_.open().empty() ? closer_.last_closed() : closer_.open().rbegin()->first;
  if (closer_.last_closed() >= *settle_at_) reconcile_alerts(true);
}

void Run::note_silence(const RunRow& row) {
  v1::GetRunResponse stored;
  if (!stored.ParseFromString(row.overview)) return;
  const std::int64_t now = services_.clock.steady_ms();
  const std::int64_t wall = services_.clock.wall_ms();
  for (const v1::RankSummary& rank : stored.ranks()) {
    const auto slot = slots_.find(rank.rank());
    if (slot == slots_.end() || slot->second->connected) continue;
    slot->second->last_seen_ms = now - std::max<std::int64_t>(wall - rank.last_seen_ms(), 0);
  }
}

void Run::check_lag() {
  const std::int64_t now = services_.clock.steady_ms();
  const CommitPipeline::Health health = services_.pipeline.health(context_.run_uid);
  const auto lag = static_cast<domain::TimeMs>(health.oldest_seconds * 1000);
  const bool told = lag_ms_ != 0;
  const bool behind =
      health.degraded ? lag >= rules_->history_degraded_after_ms : lag >= rules_->ingest_lag_ms / (told ? 2 : 1);
  if (behind ? told && now - lag_ms_ < kLagRepeatMs : !told) return;
  // Nobody is there to be told, and no end of it is waited for.
  if (behind && live_ranks().empty()) return;
  lag_ms_ = behind ? now : 0;
  Staged staged;
  log(domain::ServerLag{lag, health.degraded, health.degraded ? clipped(health.error, 200) : std::string(),
                        services_.clock.wall_ms()},
      nullptr, staged);
  submit(std::move(staged));
}

void Run::stage_incarnation(const RankSlot& slot, CommitBatch& batch) const {
  batch.incarnations.push_back({context_.run_uid, slot.rank, slot.incarnation, slot.order, slot.segment, slot.attempt_base,
                                slot.handled_seq, slot.left, slot.hello.SerializeAsString()});
}

void Run::stage_snapshot(CommitBatch& batch) {
  batch.snapshots.push_back({context_.run_uid, pos_, save_state()});
  snapshot_pos_ = pos_;
  snapshot_ms_ = services_.clock.steady_ms();
  for (auto& [rank, slot] : slots_) {
    stage_incarnation(*slot, batch);
    slot->want_state = true;
  }
}

std::vector<std::shared_ptr<StreamImpl>> Run::hand_over(const std::string& instance) {
  instance_ = instance;
  stage_final();
  std::vector<std::shared_ptr<StreamImpl>> streams;
  for (const auto& [rank, slot] : slots_) {
    if (auto stream = slot->stream()) streams.push_back(std::move(stream));
  }
  return streams;
}

void Run::stage_final() {
  Staged staged;
  overview_ms_ = 0;
  overview_dirty_ = true;
  stage_overview(staged.batch);
  if (pos_ > snapshot_pos_) stage_snapshot(staged.batch);
  submit(std::move(staged));
}

}  // namespace scalewatch::engine
