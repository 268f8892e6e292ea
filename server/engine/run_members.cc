// Who is of a run: joining, rejoining, whom closing waits for, leaving without a word.
#include "server/engine/run.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "server/engine/hello.h"
#include "server/engine/stream.h"

namespace scalewatch::engine {

namespace {

constexpr std::size_t kMaxSegments = 100;
constexpr std::int64_t kReturnMs = 35'000;  // clients reconnect within 30 s; then they send what they had kept
constexpr std::int64_t kJoinMs = 5'000;     // ranks of a job join within this of each other

std::string fenced_by(const v1::Hello& newer) {
  const std::string where =
      newer.host().empty() ? std::string() : " (host " + newer.host() + ", pid " + std::to_string(newer.pid()) + ")";
  return "a newer client of rank " + std::to_string(newer.rank()) + where +
         " is here: this one stops for good; two jobs at once need two run names";
}

}  // namespace

std::int64_t Run::silence_of(const RankSlot& slot, std::int64_t now) {
  return slot.held_back ? 0 : now - slot.last_seen_ms.load();
}

bool Run::is_here(const RankSlot& slot, std::int64_t now) const {
  return slot.connected && silence_of(slot, now) < services_.options.silent_after.count();
}

std::set<domain::Rank> Run::live_ranks() const {
  const std::int64_t now = services_.clock.steady_ms();
  std::set<domain::Rank> out;
  for (const auto& [rank, slot] : slots_) {
    const bool gone = !is_here(*slot, now) && silence_of(*slot, now) >= rules_->rank_lost_after_ms;
    if (slot->segment == segment_ && !slot->left && !gone) out.insert(rank);
  }
  return out;
}

AttemptCloser::Patience Run::patience() const {
  using Patience = AttemptCloser::Patience;
  const std::int64_t now = services_.clock.steady_ms();
  std::uint32_t joined = 0;
  std::uint32_t world_size = 1;
  bool behind = false;
  for (const auto& [rank, slot] : slots_) {
    if (slot->segment != segment_) continue;
    ++joined;
    world_size = std::max(world_size, slot->hello.world_size());
    const bool away = !slot->connected || slot->handled_seq < slot->catch_up_seq;
    behind = behind || (!slot->left && away && now - slot->moved_ms < kReturnMs);
  }
  if (joined < world_size && now < joiners_until_ms_) return Patience::kForJoiners;
  return behind ? Patience::kForBehind : Patience::kNone;
}

void Run::await_joiners() {
  if (segments_.empty() || last_report_ms_ - segments_.back().started_ms() >= kReturnMs) return;
  joiners_until_ms_ = services_.clock.steady_ms() + kReturnMs;
}

// The older one, by their clocks, is a zombie of before while the newer one has the rank. Clocks are not that good: whoever was
// never here is a restart (on another host, or after the clock was set back) once nobody else has the rank.
std::optional<v1::Fault> Run::refusal(const v1::Hello& hello, const RankSlot& holder) const {
  const Incarnation incarnation = incarnation_of(hello);
  if (holder.incarnation == incarnation || hello.incarnation_order() >= holder.order) return std::nullopt;
  const std::int64_t now = services_.clock.steady_ms();
  const bool was_here = were_here_.contains(hello.rank(), incarnation);
  const bool here = is_here(holder, now) && !holder.left;
  const bool gone = !here && (holder.left || silence_of(holder, now) >= rules_->rank_lost_after_ms);
  if (gone && !was_here) return std::nullopt;
  v1::Fault fault;
  fault.set_cause(was_here || here ? v1::FAULT_CAUSE_FENCED : v1::FAULT_CAUSE_SHUTTING_DOWN);
  fault.set_message(was_here || here
                        ? fenced_by(holder.hello)
                        : "another client of rank " + std::to_string(hello.rank()) +
                              ", newer by its clock, was here a moment ago: connect again, this one is taken once that one is "
                              "silent for " +
                              std::to_string(rules_->rank_lost_after_ms / 1000) + " s");
  return fault;
}

bool Run::opens_segment(const v1::Hello& hello, const RankSlot* previous) const {
  if (segment_ == 0) return true;
  const std::int64_t now = services_.clock.steady_ms();
  bool any_here = false;
  bool all_left = true;
  std::int64_t last_left_ms = 0;
  for (const auto& [rank, slot] : slots_) {
    if (slot->segment != segment_) continue;
    if (rank != hello.rank() && is_here(*slot, now) && !slot->left) any_here = true;
    all_left = all_left && slot->left;
    last_left_ms = std::max(last_left_ms, slot->left_wall_ms);
  }
  if (previous != nullptr && previous->segment == segment_) {
    // Another job has taken the name over, whether or not the one before still runs.
    const bool other_job =
        !hello.job_id().empty() && !previous->hello.job_id().empty() && hello.job_id() != previous->hello.job_id();
    return !any_here || other_job;
  }
  // A rank that this segment has not seen joins it, unless its job has ended by itself before this client began.
  return all_left && hello.start_time_ms() > last_left_ms;
}

// Every incarnation counts from 1. One that begins within a running segment goes on after what is closed: a rank that restarts,
// and one that the world has grown by. Another that is seen for the first time was there all along, unheard.
domain::Attempt Run::attempt_base(const v1::Hello& hello, const RankSlot* previous) const {
  const bool restarts = previous != nullptr && previous->segment == segment_;
  bool grows = !restarts;
  for (const auto& [rank, slot] : slots_) {
    if (slot->segment == segment_ && slot->hello.world_size() >= hello.world_size()) grows = false;
  }
  if (!restarts && !grows) return 0;
  // Those that begin together count alike, though attempts may have closed between their arrivals.
  const std::int64_t now = services_.clock.steady_ms();
  for (const auto& [rank, slot] : slots_) {
    const bool beside = slot->segment == segment_ && slot->begun_ms != 0 && now - slot->begun_ms < kJoinMs;
    if (beside && slot->attempt_base > 0) return slot->attempt_base;
  }
  return closer_.last_closed();
}

Run::Joined Run::join(const v1::Hello& hello, const std::shared_ptr<StreamImpl>& stream) {
  Joined out;
  const Incarnation incarnation = incarnation_of(hello);
  const auto known = slots_.find(hello.rank());
  std::shared_ptr<RankSlot> entry = known == slots_.end() ? nullptr : known->second;  // the newest incarnation so far
  Staged staged;
  if (entry) out.fault = refusal(hello, *entry);
  if (out.fault) {
    if (out.fault->cause() == v1::FAULT_CAUSE_FENCED) ++services_.counters.streams_fenced;
    return out;
  }
  take_rules(staged);
  if (!entry || entry->incarnation != incarnation) {
    if (auto old = entry ? entry->stream() : nullptr) {
      ++services_.counters.streams_fenced;
      old->end(v1::FAULT_CAUSE_FENCED, fenced_by(hello));
    }
    const std::int64_t now = services_.clock.wall_ms();
    if (opens_segment(hello, entry.get())) {
      log(domain::SegmentOpened{segment_ + 1, now}, nullptr, staged);
      // It has had attempts, and found no server: its fellows pause between their tries as it did.
      if (hello.last_seq() > 1) joiners_until_ms_ = services_.clock.steady_ms() + kReturnMs;
    }
    auto slot = std::make_shared<RankSlot>();
    slot->rank = hello.rank();
    slot->incarnation = incarnation;
    slot->order = hello.incarnation_order();
    if (entry) {
      slot->order = std::max(slot->order, entry->order + (entry->order == UINT64_MAX ? 0 : 1));
      were_here_.add(hello.rank(), entry->incarnation);
    }
    slot->segment = segment_;
    slot->attempt_base = attempt_base(hello, entry.get());
    slot->begun_ms = services_.clock.steady_ms();
    slot->hello = hello;
    slot->state.configure(to_rank_joined(hello, now), *slot->rules);
    hand_rules(*slot);
    slot->meter.configure(static_cast<DType>(hello.compute_dtype()), services_.options.top_tensors);
    slots_[hello.rank()] = slot;
    entry = slot;
    if (slots_.begin()->first == hello.rank() || context_.labels.empty()) {
      context_.labels = {hello.labels().begin(), hello.labels().end()};
    }
    log(to_rank_joined(hello, now), slot.get(), staged);
    stage_incarnation(*slot, staged.batch);
  } else if (auto old = entry->stream(); old && old != stream) {
    old->end(v1::FAULT_CAUSE_UNSPECIFIED, "this client has connected again");
  } else if (std::exchange(entry->hello_lost, false)) {
    entry->hello = hello;
    stage_incarnation(*entry, staged.batch);
  }

  RankSlot& slot = *entry;
  slot.attach(stream);
  slot.connected = true;
  slot.held_back = false;
  slot.last_seen_ms = services_.clock.steady_ms();
  slot.moved_ms = slot.last_seen_ms;
  slot.catch_up_seq = hello.last_seq();
  std::uint64_t known_seq = 0;
  {
    std::lock_guard lock(slot.mutex);
    slot.owner = stream.get();
    known_seq = std::max(slot.last_seq, slot.handled_seq);
    slot.last_seq = std::max(slot.last_seq, hello.durable_seq());
    note_table(slot, slot.table);
    out.ack.set_need_table(slot.table->size() != hello.table_size() || table_hash(*slot.table) != hello.table_hash());
  }
  if (hello.durable_seq() > known_seq) {
    // It was durable here once, and the client has let go of it.
    spdlog::error("run '{}', rank {}: reports {} to {} were durable and are not in the store any more", context_.name,
                  slot.rank, known_seq + 1, hello.durable_seq());
    services_.counters.reports_lost += hello.durable_seq() - known_seq;
    log(domain::ReportsLost{slot.rank, known_seq + 1, hello.durable_seq(), domain::LossCause::kStore,
                            services_.clock.wall_ms()},
        &slot, staged);
    slot.folded_seq = hello.durable_seq();
    slot.durable_seq = hello.durable_seq();
  }
  // Only what is durable: the client frees its buffer up to here. What is on its way is sent again and dropped as a repeat.
  out.ack.set_resume_after_seq(slot.durable_seq);
  read_replicated(slot);
  out.ack.set_keep_until_replicated(services_.options.keep_until_replicated && services_.options.replication != nullptr);
  out.ack.set_run_uid(context_.run_uid);
  out.ack.set_segment(slot.segment);
  *out.ack.mutable_limits() = services_.options.limits;
  out.ack.set_server_version(SCALEWATCH_VERSION);
  out.ack.set_server_time_ms(services_.clock.wall_ms());
  auto requests = plan();
  for (v1::Directive& directive : ask_all(slot, requests[slot.rank])) *out.ack.add_directives() = std::move(directive);
  plan_dirty_ = true;
  out.slot = entry;
  overview_dirty_ = true;
  stage_overview(staged.batch);
  submit(std::move(staged));
  return out;
}

bool Run::read_replicated(RankSlot& slot) const {
  if (services_.options.replication == nullptr) return false;
  const std::uint64_t now = services_.options.replication->replicated_seq(context_.run_uid, slot.rank, slot.incarnation);
  if (now <= slot.replicated_seq) return false;
  slot.replicated_seq = now;
  return true;
}

void Run::note_replicated() {
  for (const auto& [rank, slot] : slots_) {
    if (!read_replicated(*slot)) continue;
    if (const auto stream = slot->stream()) stream->note_replicated();
  }
}

void Run::disconnected(RankSlot& slot, const StreamImpl* stream) {
  const auto current = slot.stream();
  if (current && current.get() != stream) return;  // a newer connection took over
  slot.connected = false;
  slot.held_back = false;
  slot.moved_ms = services_.clock.steady_ms();
  {
    // Its last message is on the log already: the state belongs to exactly what was handled.
    std::lock_guard lock(slot.mutex);
    slot.saved = {slot.last_seq, pos_, slot.state.save(), slot.rules};
  }
  plan_dirty_ = true;
  overview_dirty_ = true;
}

bool Run::busy() const {
  return std::any_of(slots_.begin(), slots_.end(), [](const auto& entry) {
    return entry.second->connected || (!entry.second->left && !entry.second->reported_silent);
  });
}

void Run::apply(const domain::Input& input, const std::optional<Incarnation>& incarnation) {
  const auto slot_of = [&](domain::Rank rank) -> RankSlot* {
    const auto it = slots_.find(rank);
    return it != slots_.end() && (!incarnation || it->second->incarnation == *incarnation) ? it->second.get() : nullptr;
  };
  if (const auto* opened = std::get_if<domain::SegmentOpened>(&input)) {
    if (!segments_.empty()) segments_.back().set_attempts(state_.view().attempts);
    segment_ = opened->segment;
    worst_ = domain::Severity::kNone;
    plan_dirty_ = true;
    joiners_until_ms_ = services_.clock.steady_ms() + kJoinMs;
    closer_.reset();
    settle_at_.reset();
    summaries_.clear();
    restored_.reset();
    v1::SegmentSummary& segment = segments_.emplace_back();
    segment.set_segment(segment_);
    segment.set_started_ms(opened->now);
    if (segments_.size() > kMaxSegments) segments_.erase(segments_.begin());
  } else if (const auto* left = std::get_if<domain::RankLeft>(&input)) {
    if (RankSlot* slot = slot_of(left->rank)) {
      slot->left = true;
      slot->left_wall_ms = left->now;
      plan_dirty_ = true;
    }
  } else if (const auto* lost = std::get_if<domain::ReportsLost>(&input)) {
    if (RankSlot* slot = slot_of(lost->rank)) {
      slot->handled_seq = std::max(slot->handled_seq, lost->last_seq);
    }
  } else if (const auto* closed = std::get_if<domain::AttemptClosed>(&input)) {
    closer_.close(closed->attempt);
    summaries_.erase(summaries_.begin(), summaries_.upper_bound(closed->attempt));
  } else if (const auto* changed = std::get_if<domain::RulesChanged>(&input); changed != nullptr && !changed->rank) {
    rules_ = changed->rules;
    for (const auto& [rank, slot] : slots_) hand_rules(*slot);
  }
}

}  // namespace scalewatch::engine
