#include "server/engine/run.h"

#include <algorithm>
#include <utility>

#include "server/engine/finding_codec.h"
#include "server/engine/stream.h"

namespace scalewatch::engine {

namespace {

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
    const bool changed = staged.all_alerts_changed || told.contains(row.id);
    if (v1::Alert alert; changed && alert.ParseFromString(row.alert)) alerts.push_back(std::move(alert));
  }
  services_.pipeline.submit({std::move(staged.batch),
                             [run_uid = context_.run_uid, tail = std::move(staged.tail), alerts = std::move(alerts),
                              on_durable = std::move(staged.on_durable), services = services_] {
                               for (const auto& event : tail)
                                 services.run_feed.publish(std::make_shared<RunEvent>(RunEvent{run_uid, event}));
                               for (const auto& alert : alerts) services.alert_feed.publish(std::make_shared<v1::Alert>(alert));
                               if (on_durable) on_durable();
                             },
                             context_.run_uid});
}

}  // namespace scalewatch::engine
