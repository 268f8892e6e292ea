// State = fold(newest snapshot, log after it). What the log caused (alerts, outbox) was committed with it: nothing fires anew.
//
// A row that can't be read is left out, the same way at every start, so that the fold stays one of the same inputs.
#include <spdlog/spdlog.h>
#include <algorithm>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "server/engine/hello.h"
#include "server/engine/readings_codec.h"
#include "server/engine/report_codec.h"
#include "server/engine/rules_codec.h"
#include "server/engine/run.h"
#include "server/engine/snapshot.h"
#include "server/engine/text.h"

namespace scalewatch::engine {

namespace {

using nlohmann::json;

// 2: the domain's losses by cause; 3: what logs say, advice made when it is looked at; 4: losses of 0, faults of tensors by
// attempt
constexpr int kStateVersion = 4;

json binary(const std::string& bytes) {
  return json::binary({bytes.begin(), bytes.end()});
}

std::string text_of(const json& value) {
  const auto& bytes = value.get_binary();
  return {bytes.begin(), bytes.end()};
}

}  // namespace

std::string Run::save_state() const {
  json out{{"version", kStateVersion},
           {"pos", pos_},
           {"segment", segment_},
           {"worst", static_cast<int>(worst_)},
           {"labels", context_.labels},
           {"rules", encode_rules(*rules_)},
           {"domain", binary(state_.save())},
           {"readings", encode_readings(make_readings())},
           {"last_closed", closer_.last_closed()},
           {"segments", json::array()},
           {"open", json::array()},
           {"slots", json::array()}};
  for (const auto& segment : segments_)
    out["segments"].push_back({segment.segment(), segment.started_ms(), segment.attempts()});
  for (const auto& [attempt, open] : closer_.open()) out["open"].push_back({attempt, open.ranks});
  for (const auto& [rank, slot] : slots_) {
    out["slots"].push_back({{"rank", rank},
                            {"incarnation", to_hex(slot->incarnation)},
                            {"left", slot->left},
                            {"left_ms", slot->left_wall_ms},
                            {"silent", slot->reported_silent},
                            {"handled_seq", slot->handled_seq},
                            {"newest_attempt", slot->newest_attempt},
                            {"saved_seq", slot->saved.seq},
                            {"saved_pos", slot->saved.pos},
                            {"saved", binary(slot->saved.state)},
                            {"saved_rules", encode_rules(*slot->saved.rules)}});
  }
  const auto bytes = json::to_cbor(out);
  return {bytes.begin(), bytes.end()};
}

std::uint64_t log_needed_after(const std::string& state) try {
  const json in = json::from_cbor(state);
  std::uint64_t pos = in.at("pos");
  for (const auto& slot : in.at("slots")) {
    if (!slot.at("left").get<bool>()) pos = std::min(pos, slot.at("saved_pos").get<std::uint64_t>());
  }
  return pos;
} catch (const json::exception&) {
  return 0;
}

std::optional<RunReadings> readings_in(const std::string& state) try {
  const json in = json::from_cbor(state);
  if (!in.contains("readings")) return std::nullopt;
  return decode_readings(in.at("readings"));
} catch (const json::exception&) {
  return std::nullopt;
}

bool Run::load_state(const std::string& bytes, const SlotIndex& index) try {
  const json in = json::from_cbor(bytes);
  const int version = in.at("version");
  if (version < kStateVersion) return false;
  if (version > kStateVersion) throw StoreError("its snapshot is of a newer version of scalewatchd", true);
  in.at("pos").get_to(pos_);
  in.at("segment").get_to(segment_);
  worst_ = static_cast<domain::Severity>(in.value("worst", 0));
  in.at("labels").get_to(context_.labels);
  if (in.contains("rules")) rules_ = std::make_shared<const domain::Thresholds>(decode_rules(in.at("rules")));
  state_ = domain::RunState(*rules_);
  state_.load(text_of(in.at("domain")));
  if (in.contains("readings")) {
    RunReadings before = decode_readings(in.at("readings"));
    restored_ = std::make_shared<const RankReading>(RankReading{before.roles, std::move(before.tensors)});
  }
  for (const auto& segment : in.at("segments")) {
    v1::SegmentSummary& to = segments_.emplace_back();
    to.set_segment(segment.at(0));
    to.set_started_ms(segment.at(1));
    to.set_attempts(segment.at(2));
  }
  const std::int64_t now = services_.clock.steady_ms();
  for (const auto& open : in.at("open")) {
    for (const domain::Rank rank : open.at(1)) closer_.note(open.at(0), rank, now);
  }
  closer_.close(in.at("last_closed"));
  for (const auto& saved : in.at("slots")) {
    const domain::Rank rank = saved.at("rank");
    const auto found = index.find({rank, incarnation_from_hex(saved.at("incarnation").get<std::string>())});
    if (found == index.end()) throw std::runtime_error("snapshot names an incarnation that the store does not have");
    RankSlot& slot = *found->second;
    slots_[rank] = found->second;
    saved.at("left").get_to(slot.left);
    saved.at("left_ms").get_to(slot.left_wall_ms);
    saved.at("silent").get_to(slot.reported_silent);
    slot.handled_seq = std::max(slot.handled_seq, saved.at("handled_seq").get<std::uint64_t>());
    saved.at("newest_attempt").get_to(slot.newest_attempt);
    slot.saved = {saved.at("saved_seq"), saved.at("saved_pos"), text_of(saved.at("saved")), built_in_rules()};
    if (saved.contains("saved_rules")) {
      slot.saved.rules = std::make_shared<const domain::Thresholds>(decode_rules(saved.at("saved_rules")));
      slot.rules = slot.logged_rules = slot.saved.rules;
      slot.state.change_rules(*slot.rules);
    }
    if (!slot.saved.state.empty()) slot.state.load(slot.saved.state);
  }
  return true;
} catch (const json::exception& error) {
  throw std::runtime_error(std::string("snapshot does not decode: ") + error.what());
}

namespace {

// Bytes of something else may parse, too.
bool read_hello(const IncarnationRow& row, v1::Hello& hello) {
  return hello.ParseFromString(row.hello) && hello.rank() == row.rank && hello.incarnation().size() == row.incarnation.size() &&
         incarnation_of(hello) == row.incarnation && hello_fault(hello, row.rank + std::max(hello.world_size(), 1U)).empty();
}

std::shared_ptr<domain::TensorTable> read_table(const std::vector<TableRow>& rows, const v1::Limits& limits,
                                                std::uint32_t& version, std::uint64_t& unreadable) {
  auto table = std::make_shared<domain::TensorTable>();
  for (const TableRow& stored : rows) {
    v1::TableDelta delta;
    // What follows a part that is missing has no place: the client sends the table again when it connects.
    if (!delta.ParseFromString(stored.delta) || delta.infos().empty() || !append_table(*table, delta, limits).empty()) {
      ++unreadable;
    }
    version = std::max(version, stored.version);
  }
  return table;
}

}  // namespace

Run::SlotIndex Run::load_slots(HistoryStore& store) {
  SlotIndex index;
  std::vector<IncarnationRow> rows = store.incarnations(context_.run_uid);
  // The oldest are forgotten first.
  std::ranges::stable_sort(rows, {}, &IncarnationRow::order);
  for (const IncarnationRow& row : rows) {
    were_here_.add(row.rank, row.incarnation);
    auto slot = std::make_shared<RankSlot>();
    slot->rank = row.rank;
    slot->incarnation = row.incarnation;
    slot->order = row.order;
    slot->segment = row.segment;
    slot->attempt_base = row.attempt_base;
    slot->handled_seq = row.durable_seq;
    slot->left = row.left;
    slot->last_seen_ms = services_.clock.steady_ms();
    slot->moved_ms = services_.clock.steady_ms();
    if (!read_hello(row, slot->hello)) {
      ++unreadable_.rows;
      slot->hello_lost = true;
      slot->hello.Clear();
      slot->hello.set_rank(row.rank);
      slot->hello.set_world_size(row.rank + 1);
    }
    slot->state.configure(to_rank_joined(slot->hello, 0), *slot->rules);
    slot->meter.configure(static_cast<DType>(slot->hello.compute_dtype()), services_.options.top_tensors);
    slot->table = services_.tables.share(read_table(store.tables(context_.run_uid, row.rank, row.incarnation),
                                                    services_.options.limits, slot->table_version, unreadable_.rows));
    note_table(*slot, slot->table);
    index[{row.rank, row.incarnation}] = std::move(slot);
  }
  return index;
}

void Run::load(HistoryStore& store, const RunRow& row, Recovery how) {
  created_ms_ = row.created_ms;
  last_report_ms_ = row.last_report_ms;
  if (how == Recovery::kName) return start_over(row, {});
  const SlotIndex index = load_slots(store);
  if (how == Recovery::kStreams) return start_over(row, index);
  if (how == Recovery::kWhole) {
    if (const auto snapshot = store.newest_snapshot(context_.run_uid); snapshot && !load_state(snapshot->state, index)) {
      spdlog::info("run '{}' is folded anew from its log: its snapshot is of an older version", context_.name);
    }
  }
  const std::uint64_t folded_pos = pos_;
  snapshot_pos_ = folded_pos;
  // Ranks' own state may be older than the run's: read from the oldest of them on.
  std::uint64_t from = folded_pos;
  for (const auto& [rank, slot] : slots_) {
    if (!slot->left) from = std::min(from, slot->saved.pos);
  }
  store.read_log(context_.run_uid, from, [&](const HistoryStore::LogEntry& entry) {
    if (entry.report) replay_report(*entry.report, folded_pos, index);
    if (entry.input) replay_input(*entry.input, folded_pos, index);
  });
  for (const auto& [key, slot] : index) {
    slot->last_seq = slot->handled_seq;
    // Of reports that the snapshot has taken in already.
    if (slot->newest_attempt > slot->attempt_base)
      slot->last_attempt = std::max(slot->last_attempt, slot->newest_attempt - slot->attempt_base);
    slot->folded_seq = slot->handled_seq;
    slot->durable_seq = slot->handled_seq;
    hand_rules(*slot);
  }
  await_joiners();
  overview_dirty_ = true;
  reconcile_alerts(false);  // before anything else changes them
  tell_unreadable();
}

// The log's numbers can't be read either: go on far beyond them. Fewer than a thousand are given out a millisecond.
void Run::start_over(const RunRow& row, const SlotIndex& index) {
  pos_ = static_cast<std::uint64_t>(services_.clock.wall_ms()) * 1000;
  segment_ = row.segment;
  for (const auto& [key, slot] : index) {
    slot->last_seq = slot->handled_seq;
    slot->folded_seq = slot->handled_seq;
    slot->durable_seq = slot->handled_seq;
    auto& newest = slots_[slot->rank];
    if (!newest || newest->order < slot->order) newest = slot;
  }
  Staged staged;
  services_.outbox.resolve_all(context_, "what was known of the run can't be read any more", staged.batch);
  const std::int64_t now = services_.clock.wall_ms();
  log(domain::SegmentOpened{segment_, now}, nullptr, staged);
  for (const auto& [rank, slot] : slots_) {
    if (slot->segment != segment_) continue;
    log(to_rank_joined(slot->hello, now), slot.get(), staged);
    if (slot->handled_seq > 0) unreadable_.ranges.push_back({slot, {1, slot->handled_seq}});
  }
  stage_snapshot(staged.batch);
  overview_dirty_ = true;
  submit(std::move(staged));
  tell_unreadable();
}

void Run::tell_unreadable() {
  const Unreadable found = std::exchange(unreadable_, {});
  auto ranges = found.ranges;
  for (const auto& [slot, seqs] : found.reports) {
    for (const std::uint64_t seq : seqs) {
      const bool next = !ranges.empty() && ranges.back().first.get() == slot && ranges.back().second.second + 1 == seq;
      if (next) {
        ranges.back().second.second = seq;
      } else {
        ranges.push_back({slots_.at(slot->rank), {seq, seq}});
      }
    }
  }
  if (found.rows == 0 && ranges.empty()) return;
  spdlog::error("run '{}': {} rows in the store can't be read and are left out; {} ranges of reports are told as lost",
                context_.name, found.rows, ranges.size());
  Staged staged;
  for (const auto& [slot, range] : ranges) {
    services_.counters.reports_lost += range.second - range.first + 1;
    log(domain::ReportsLost{slot->rank, range.first, range.second, domain::LossCause::kStore, services_.clock.wall_ms()},
        slot.get(), staged);
  }
  submit(std::move(staged));
}

void Run::enter_segment(std::uint32_t segment, domain::TimeMs now) {
  if (segment <= segment_) return;
  const domain::Input opened = domain::SegmentOpened{segment, now};
  apply(opened, {});
  fold_state(opened);
}

void Run::bring_rank(const std::shared_ptr<RankSlot>& slot, domain::TimeMs now) {
  enter_segment(slot->segment, now);
  auto& current = slots_[slot->rank];
  if (current && current->order >= slot->order) return;
  current = slot;
  const domain::Input joined = to_rank_joined(slot->hello, now);
  apply(joined, slot->incarnation);
  fold_state(joined);
}

void Run::replay_report(const ReportRow& row, std::uint64_t folded_pos, const SlotIndex& index) {
  const auto found = index.find({row.rank, row.incarnation});
  pos_ = std::max(pos_, row.pos);
  if (found == index.end()) {
    ++unreadable_.rows;
    return;
  }
  RankSlot& slot = *found->second;
  if (row.pos > folded_pos) bring_rank(found->second, row.time_ms);
  v1::Report report;
  if (!report.ParseFromString(row.payload) || report.seq() != row.seq) {
    if (row.pos <= folded_pos) return;
    ++unreadable_.rows;
    slot.handled_seq = std::max(slot.handled_seq, row.seq);
    if (slots_[row.rank].get() == &slot) unreadable_.reports[&slot].insert(row.seq);
    return;
  }
  if (row.seq <= slot.saved.seq) return;
  auto digest = digest_of(report, row.rank, row.attempt, row.time_ms, slot.table);
  slot.state.fold(columns_of(report), digest);
  add_log(report, digest);
  if (!row.retrospective) slot.last_attempt = std::max(slot.last_attempt, report.attempt());
  if (report.has_client()) slot.client = report.client();
  if (row.pos <= folded_pos) return;
  slot.handled_seq = std::max(slot.handled_seq, row.seq);
  last_report_ms_ = std::max(last_report_ms_, row.time_ms);
  if (slot.segment != segment_) return;
  if (!row.retrospective) {
    slot.newest_attempt = std::max(slot.newest_attempt, row.attempt);
    if (closer_.note(row.attempt, row.rank, services_.clock.steady_ms())) note_summary(row);
  }
  fold_state(digest);
}

void Run::replay_input(const InputRow& row, std::uint64_t folded_pos, const SlotIndex& index) try {
  const bool folded = row.pos <= folded_pos;
  // A rank's own state may be older than the run's: what changed for it since comes before its next report.
  if (folded && row.payload.find("\"rules_changed\"") == std::string::npos) return;
  pos_ = std::max(pos_, row.pos);
  const LoggedInput logged = decode_input(row.payload);
  if (const auto* changed = std::get_if<domain::RulesChanged>(&logged.input); changed != nullptr && changed->rank) {
    const auto found = index.find({*changed->rank, logged.incarnation.value_or(Incarnation{})});
    if (found != index.end() && row.pos > found->second->saved.pos) {
      RankSlot& slot = *found->second;
      slot.rules = slot.logged_rules = changed->rules;
      slot.state.change_rules(*slot.rules);
    }
  }
  if (folded) return;
  if (const auto* joined = std::get_if<domain::RankJoined>(&logged.input); joined != nullptr && logged.incarnation) {
    const auto found = index.find({joined->rank, *logged.incarnation});
    if (found == index.end()) {
      ++unreadable_.rows;
      return;
    }
    enter_segment(found->second->segment, joined->now);
    slots_[joined->rank] = found->second;
    const auto& labels = found->second->hello.labels();
    if (slots_.begin()->first == joined->rank || context_.labels.empty()) context_.labels = {labels.begin(), labels.end()};
  }
  if (const auto* liveness = std::get_if<domain::Liveness>(&logged.input)) {
    for (const auto& seen : liveness->ranks) {
      if (auto it = slots_.find(seen.rank); it != slots_.end()) {
        it->second->reported_silent = liveness->now - seen.last_seen >= rules_->rank_lost_after_ms;
      }
    }
  }
  if (const auto* lost = std::get_if<domain::ReportsLost>(&logged.input);
      lost != nullptr && lost->cause == domain::LossCause::kStore) {
    if (const auto slot = slots_.find(lost->rank); slot != slots_.end()) {
      auto& untold = unreadable_.reports[slot->second.get()];
      untold.erase(untold.lower_bound(lost->first_seq), untold.upper_bound(lost->last_seq));
    }
  }
  apply(logged.input, logged.incarnation);
  fold_state(logged.input);
} catch (const StoreError&) {
  throw;
} catch (const std::runtime_error&) {
  ++unreadable_.rows;
}

}  // namespace scalewatch::engine
