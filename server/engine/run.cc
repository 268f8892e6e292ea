#include "server/engine/run.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "server/engine/finding_codec.h"
#include "server/engine/hello.h"
#include "server/engine/stream.h"
#include "server/engine/text.h"

namespace scalewatch::engine {

namespace {

constexpr std::size_t kMaxSegments = 100;
constexpr std::int64_t kLivenessRepeatMs = 15'000;  // how often an undecided silence is looked at again
constexpr std::int64_t kLagRepeatMs = 10'000;       // and how often it is told that the server is behind
constexpr std::int64_t kQuietRepeatMs = 60'000;     // and how often a run whose ranks are there and report nothing
constexpr std::int64_t kReturnMs = 35'000;          // clients reconnect within 30 s; then they send what they had kept
constexpr std::int64_t kJoinMs = 5'000;             // ranks of a job join within this of each other

std::string fenced_by(const v1::Hello& newer) {
  const std::string where =
      newer.host().empty() ? std::string() : " (host " + newer.host() + ", pid " + std::to_string(newer.pid()) + ")";
  return "a newer client of rank " + std::to_string(newer.rank()) + where +
         " is here: this one stops for good; two jobs at once need two run names";
}

bool is_change_to_tell(domain::FindingEvent::Change change) {
  return change != domain::FindingEvent::Change::kUpdated;
}

}  // namespace

Run::Run(RunServices services, std::string run_uid, std::string name, std::int64_t created_ms)
    : services_(services),
      context_{std::move(run_uid), std::move(name), {}, [this](domain::Rank rank) { return place_of(rank); }},
      created_ms_(created_ms),
      instance_(services.options.instance),
      state_(*rules_),
      closer_(services.options.close_lead, services.options.close_after.count()) {
  last_input_ms_ = services_.clock.steady_ms();
  snapshot_ms_ = last_input_ms_;
  since_ms_ = last_input_ms_;
  reported_ms_ = last_input_ms_;
}

RunContext::Place Run::place_of(domain::Rank rank) const {
  const auto slot = slots_.find(rank);
  if (slot == slots_.end()) return {};
  return {slot->second->hello.host(), slot->second->hello.gpu_uuid()};
}

std::shared_ptr<const v1::GetRunResponse> Run::overview() const {
  std::lock_guard lock(overview_mutex_);
  return overview_;
}

RunShown Run::shown() const {
  std::lock_guard lock(overview_mutex_);
  return {overview_, readings_};
}

// ---- who is here ----------------------------------------------------------------------------------------------------

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
  if (entry && entry->incarnation != incarnation && hello.incarnation_order() < entry->order) {
    ++services_.counters.streams_fenced;
    v1::Fault& fault = out.fault.emplace();
    fault.set_cause(v1::FAULT_CAUSE_FENCED);
    fault.set_message(fenced_by(entry->hello));
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

// ---- what comes in --------------------------------------------------------------------------------------------------

void Run::take(RankSlot& slot, TakenReport report, OnDurable on_durable) {
  Staged staged;
  staged.on_durable = std::move(on_durable);
  if (report.rules != slot.logged_rules) {
    log(domain::RulesChanged{report.rules, slot.rank, report.digest.now}, &slot, staged);
    slot.logged_rules = report.rules;
  }
  ReportRow& row = report.row;
  row.run_uid = context_.run_uid;
  row.rank = slot.rank;
  row.incarnation = slot.incarnation;
  row.pos = ++pos_;
  row.segment = slot.segment;
  row.attempt = report.digest.attempt;
  row.time_ms = report.digest.now;
  slot.handled_seq = row.seq;
  last_report_ms_ = row.time_ms;
  last_input_ms_ = services_.clock.steady_ms();
  reported_ms_ = last_input_ms_;
  if (report.client) slot.client = std::move(*report.client);
  if (report.reading) slot.reading = std::move(report.reading);
  if (report.rank_state) slot.saved = {row.seq, row.pos, std::move(*report.rank_state), report.rules};

  // A report of an older segment is history only: the run has moved on.
  if (slot.segment == segment_) {
    if (!row.retrospective) {
      slot.newest_attempt = std::max(slot.newest_attempt, row.attempt);
      if (closer_.note(row.attempt, slot.rank, last_input_ms_)) {
        note_summary(row);
      } else {
        ++services_.counters.reports_late;
      }
    }
    fold(report.digest, staged);
  }
  staged.batch.reports.push_back(std::move(row));
  close_due(staged);
  overview_dirty_ = true;
  stage_overview(staged.batch);
  submit(std::move(staged));
}

void Run::take_table(RankSlot& slot, std::uint32_t version, const v1::TableDelta& delta) {
  {
    std::lock_guard lock(slot.mutex);
    note_table(slot, slot.table);
  }
  plan_dirty_ = true;
  Staged staged;
  staged.batch.tables.push_back(
      {context_.run_uid, slot.rank, slot.incarnation, version, delta.first_id(), delta.SerializeAsString()});
  submit(std::move(staged));
}

void Run::lose(RankSlot& slot, std::uint64_t first_seq, std::uint64_t last_seq, domain::LossCause cause, OnDurable on_durable) {
  Staged staged;
  staged.on_durable = std::move(on_durable);
  log(domain::ReportsLost{slot.rank, first_seq, last_seq, cause, services_.clock.wall_ms()}, &slot, staged);
  close_due(staged);
  submit(std::move(staged));
}

void Run::leave(RankSlot& slot, const std::string& reason, OnDurable on_durable) {
  Staged staged;
  staged.on_durable = std::move(on_durable);
  if (!slot.left) {
    const bool current = slot.segment == segment_;
    if (current) {
      // What this rank has reported closes before it goes, so that the rules see its last attempts.
      slot.left = true;
      close_due(staged);
    }
    log(domain::RankLeft{slot.rank, reason, services_.clock.wall_ms()}, &slot, staged);
  }
  stage_incarnation(slot, staged.batch);
  // Whoever asks once the goodbye is durable sees all that came before it.
  overview_dirty_ = true;
  overview_ms_ = 0;
  stage_overview(staged.batch);
  publish_readings(true);
  // What is shown of it once it has ended, also by a server that starts later.
  if (status() == v1::RUN_STATUS_FINISHED) stage_snapshot(staged.batch);
  submit(std::move(staged));
}

bool Run::acknowledge(const std::string& finding_id, const std::string& who, const std::string& comment, OnDurable on_durable) {
  const domain::RunView view = state_.view();
  const auto is_it = [&](const domain::Finding& finding) { return finding.id == finding_id; };
  if (std::none_of(view.open.begin(), view.open.end(), is_it)) return false;
  Staged staged;
  staged.on_durable = std::move(on_durable);
  log(domain::Acknowledged{finding_id, who, comment, services_.clock.wall_ms()}, nullptr, staged);
  submit(std::move(staged));
  return true;
}

void Run::take_rules() {
  if (segment_ == 0) return;  // nobody has joined: there is no run to log it for
  Staged staged;
  take_rules(staged);
  submit(std::move(staged));
}

void Run::take_rules(Staged& staged) {
  const std::uint64_t version = services_.rules.version();
  if (version == rules_version_) return;
  rules_version_ = version;
  auto wanted = std::make_shared<const domain::Thresholds>(services_.rules.of(context_.name));
  if (*wanted != *rules_) log(domain::RulesChanged{std::move(wanted), {}, services_.clock.wall_ms()}, nullptr, staged);
}

void Run::hand_rules(RankSlot& slot) const {
  std::lock_guard lock(slot.mutex);
  slot.next_rules = *slot.rules == *rules_ ? nullptr : rules_;
}

// ---- folding and committing -----------------------------------------------------------------------------------------

void Run::log(domain::Input input, const RankSlot* slot, Staged& staged) {
  LoggedInput logged{std::move(input), {}};
  if (slot != nullptr) logged.incarnation = slot->incarnation;
  if (std::holds_alternative<domain::AttemptClosed>(logged.input)) logged.segment = segment_;
  staged.batch.inputs.push_back({context_.run_uid, ++pos_, encode_input(logged)});
  apply(logged.input, logged.incarnation);
  fold(logged.input, staged);
  last_input_ms_ = services_.clock.steady_ms();
  overview_dirty_ = true;
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

void Run::fold(const domain::Input& input, Staged& staged) {
  auto events = fold_state(input);
  std::move(events.begin(), events.end(), std::back_inserter(staged.findings));
}

std::vector<domain::FindingEvent> Run::fold_state(const domain::Input& input) {
  auto events = state_.fold(input);
  for (const auto& event : events) {
    if (event.finding.segment == segment_) worst_ = std::max(worst_, event.finding.severity);
    if (event.finding.severity >= domain::Severity::kWarning && event.finding.blame) plan_dirty_ = true;
  }
  return events;
}

void Run::note_summary(const ReportRow& row) {
  v1::AttemptSummary& summary = summaries_[row.attempt];
  const bool lowest = summary.ranks_size() == 0 || row.rank < *std::min_element(summary.ranks().begin(), summary.ranks().end());
  summary.add_ranks(row.rank);
  if (!lowest) return;
  summary.set_segment(row.segment);
  summary.set_attempt(row.attempt);
  summary.set_step(row.step);
  summary.set_time_ms(row.time_ms);
  if (row.loss) summary.set_loss(*row.loss);
  if (row.lr) summary.set_lr(*row.lr);
  if (row.grad_norm) summary.set_grad_norm(*row.grad_norm);
  summary.clear_scalers();
  for (const auto& scaler : row.scalers) {
    v1::ScalerPoint& point = *summary.add_scalers();
    point.set_scaler(scaler.scaler);
    point.set_first_attempt(row.attempt);
    point.set_last_attempt(row.attempt);
    point.set_last_step(row.step);
    if (scaler.scale_before) point.set_scale_before(*scaler.scale_before);
    if (scaler.scale_after) point.set_scale_after(*scaler.scale_after);
    if (scaler.growth_tracker) point.set_growth_tracker(static_cast<std::uint64_t>(*scaler.growth_tracker));
    if (scaler.outcome == 0) point.set_unknown(1);
    if (scaler.outcome == 1) point.set_applied(1);
    if (scaler.outcome == 2) point.set_skipped(1);
    if (scaler.outcome == 3) point.set_partial(1);
  }
}

void Run::close_due(Staged& staged) {
  for (auto& due : closer_.due(live_ranks(), services_.clock.steady_ms(), patience())) {
    if (auto it = summaries_.find(due.attempt); it != summaries_.end()) {
      it->second.mutable_missing()->Add(due.missing.begin(), due.missing.end());
      *staged.tail.emplace_back().mutable_attempt() = std::move(it->second);
    }
    log(domain::AttemptClosed{due.attempt, std::move(due.missing), services_.clock.wall_ms()}, nullptr, staged);
  }
}

void Run::submit(Staged staged) {
  if (!staged.findings.empty()) services_.outbox.stage(context_, staged.findings, staged.batch);
  std::set<std::string> told;  // alerts that changed state; a mere update is for whoever asks
  for (const auto& event : staged.findings) {
    if (!is_change_to_tell(event.change)) continue;
    told.insert(finding_id(context_.run_uid, event.finding));
    *staged.tail.emplace_back().mutable_finding() = to_proto(context_.run_uid, event.finding);
  }
  if (staged.batch.empty() && !staged.on_durable) return;

  std::vector<v1::Alert> alerts;
  for (const AlertRow& row : staged.batch.alerts) {
    if (v1::Alert alert; told.contains(row.id) && alert.ParseFromString(row.alert)) alerts.push_back(std::move(alert));
  }
  services_.pipeline.submit(
      {std::move(staged.batch), [run_uid = context_.run_uid, tail = std::move(staged.tail), alerts = std::move(alerts),
                                 on_durable = std::move(staged.on_durable), services = services_] {
         for (const auto& event : tail) services.run_feed.publish(std::make_shared<RunEvent>(RunEvent{run_uid, event}));
         for (const auto& alert : alerts) services.alert_feed.publish(std::make_shared<v1::Alert>(alert));
         if (on_durable) on_durable();
       }});
}

// ---- timers ---------------------------------------------------------------------------------------------------------

void Run::tick() {
  const std::int64_t now = services_.clock.steady_ms();
  take_rules();
  Staged staged;
  close_due(staged);
  submit(std::move(staged));
  check_liveness();
  check_lag();
  deliver_directives();

  Staged upkeep;
  note_who_is_here();
  stage_overview(upkeep.batch);
  publish_readings();
  if (pos_ > snapshot_pos_ && now - snapshot_ms_ >= services_.options.snapshot_every.count()) stage_snapshot(upkeep.batch);
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
  const CommitPipeline::Stats stats = services_.pipeline.stats();
  const auto lag = static_cast<domain::TimeMs>(stats.oldest_seconds * 1000);
  const bool told = lag_ms_ != 0;
  const bool behind = stats.degraded ? lag >= rules_->history_degraded_after_ms : lag >= rules_->ingest_lag_ms / (told ? 2 : 1);
  if (behind ? told && now - lag_ms_ < kLagRepeatMs : !told) return;
  // Nobody is there to be told, and no end of it is waited for.
  if (behind && live_ranks().empty()) return;
  lag_ms_ = behind ? now : 0;
  Staged staged;
  log(domain::ServerLag{lag, stats.degraded, stats.degraded ? clipped(stats.error, 200) : std::string(),
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
