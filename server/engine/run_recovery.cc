// State = fold(newest snapshot, log after it). What the log caused (alerts, outbox) was committed with it: nothing fires anew.
#include <spdlog/spdlog.h>
#include <algorithm>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "server/engine/hello.h"
#include "server/engine/report_codec.h"
#include "server/engine/run.h"
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
           {"domain", binary(state_.save())},
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
                            {"saved", binary(slot->saved.state)}});
  }
  const auto bytes = json::to_cbor(out);
  return {bytes.begin(), bytes.end()};
}

bool Run::load_state(const std::string& bytes, const SlotIndex& index) try {
  const json in = json::from_cbor(bytes);
  const int version = in.at("version");
  if (version < kStateVersion) return false;
  if (version > kStateVersion) throw std::runtime_error("its snapshot is of a newer version of scalewatchd");
  in.at("pos").get_to(pos_);
  in.at("segment").get_to(segment_);
  worst_ = static_cast<domain::Severity>(in.value("worst", 0));
  in.at("labels").get_to(context_.labels);
  state_.load(text_of(in.at("domain")));
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
    slot.saved = {saved.at("saved_seq"), saved.at("saved_pos"), text_of(saved.at("saved"))};
    if (!slot.saved.state.empty()) slot.state.load(slot.saved.state);
  }
  return true;
} catch (const json::exception& error) {
  throw std::runtime_error(std::string("snapshot does not decode: ") + error.what());
}

Run::SlotIndex Run::load_slots(HistoryStore& store) {
  SlotIndex index;
  for (const IncarnationRow& row : store.incarnations(context_.run_uid)) {
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
    if (!slot->hello.ParseFromString(row.hello)) throw std::runtime_error("a stored Hello does not parse");
    slot->state.configure(to_rank_joined(slot->hello, 0), thresholds_);
    auto table = std::make_shared<domain::TensorTable>();
    for (const TableRow& stored : store.tables(context_.run_uid, row.rank, row.incarnation)) {
      v1::TableDelta delta;
      if (!delta.ParseFromString(stored.delta)) throw std::runtime_error("a stored tensor table does not parse");
      if (auto fault = append_table(*table, delta, services_.options.limits); !fault.empty())
        throw std::runtime_error("a stored tensor table: " + fault);
      slot->table_version = stored.version;
    }
    slot->table = std::move(table);
    note_table(*slot, slot->table);
    index[{row.rank, row.incarnation}] = std::move(slot);
  }
  return index;
}

void Run::load(HistoryStore& store, const RunRow& row) {
  created_ms_ = row.created_ms;
  last_report_ms_ = row.last_report_ms;
  const SlotIndex index = load_slots(store);
  if (const auto snapshot = store.newest_snapshot(context_.run_uid); snapshot && !load_state(snapshot->state, index)) {
    spdlog::info("run '{}' is folded anew from its log: its snapshot is of an older version", context_.name);
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
  }
  overview_dirty_ = true;
}

void Run::replay_report(const ReportRow& row, std::uint64_t folded_pos, const SlotIndex& index) {
  const auto found = index.find({row.rank, row.incarnation});
  v1::Report report;
  if (found == index.end() || !report.ParseFromString(row.payload)) throw std::runtime_error("a stored report does not decode");
  RankSlot& slot = *found->second;
  if (row.seq <= slot.saved.seq) return;
  auto digest = digest_of(report, row.rank, row.attempt, row.time_ms, slot.table);
  slot.state.fold(columns_of(report), digest);
  add_log(report, digest);
  if (!row.retrospective) slot.last_attempt = std::max(slot.last_attempt, report.attempt());
  if (report.has_client()) slot.client = report.client();
  if (row.pos <= folded_pos) return;
  pos_ = row.pos;
  slot.handled_seq = std::max(slot.handled_seq, row.seq);
  last_report_ms_ = std::max(last_report_ms_, row.time_ms);
  if (slot.segment != segment_) return;
  if (!row.retrospective) {
    slot.newest_attempt = std::max(slot.newest_attempt, row.attempt);
    if (closer_.note(row.attempt, row.rank, services_.clock.steady_ms())) note_summary(row);
  }
  fold_state(digest);
}

void Run::replay_input(const InputRow& row, std::uint64_t folded_pos, const SlotIndex& index) {
  if (row.pos <= folded_pos) return;
  const LoggedInput logged = decode_input(row.payload);
  pos_ = row.pos;
  if (const auto* joined = std::get_if<domain::RankJoined>(&logged.input); joined != nullptr && logged.incarnation) {
    const auto found = index.find({joined->rank, *logged.incarnation});
    if (found == index.end()) throw std::runtime_error("a logged incarnation is not in the store");
    slots_[joined->rank] = found->second;
    const auto& labels = found->second->hello.labels();
    if (slots_.begin()->first == joined->rank || context_.labels.empty()) context_.labels = {labels.begin(), labels.end()};
  }
  if (const auto* liveness = std::get_if<domain::Liveness>(&logged.input)) {
    for (const auto& seen : liveness->ranks) {
      if (auto it = slots_.find(seen.rank); it != slots_.end()) {
        it->second->reported_silent = liveness->now - seen.last_seen >= thresholds_.rank_lost_after_ms;
      }
    }
  }
  apply(logged.input, logged.incarnation);
  fold_state(logged.input);
}

}  // namespace scalewatch::engine
