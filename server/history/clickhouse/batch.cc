#include "server/history/clickhouse/batch.h"

#include <algorithm>

#include "server/engine/input_codec.h"
#include "server/history/clickhouse/keys.h"
#include "server/history/clickhouse/shared.h"
#include "server/history/clickhouse/tables.h"
#include "server/history/record_reader.h"

namespace scalewatch::clickhouse {

namespace {

// What is in records' columns goes; what else a report says stays, with the shape of its blocks.
void strip(v1::Report& report) {
  for (auto& block : *report.mutable_blocks()) {
    block.clear_numel();
    block.clear_min();
    block.clear_max();
    block.clear_absmin_nonzero();
    block.clear_sum();
    block.clear_sum_sq();
    block.clear_zero();
    block.clear_subnormal();
    block.clear_flushed();
    block.clear_nan();
    block.clear_pos_inf();
    block.clear_neg_inf();
    block.clear_over();
    block.clear_first_bad_micro();
  }
}

}  // namespace

Batch::Batch()
    : records(columns_of("records")),
      reports(columns_of("reports")),
      scalers(columns_of("scalers")),
      inputs(columns_of("inputs")),
      payloads(columns_of("payloads")) {}

void Batch::begin_run(const std::string& run_uid, std::uint64_t term, std::uint64_t after_pos, TensorsOf tensors) {
  end_run();
  parts_.push_back({run_uid, term, {after_pos + 1, after_pos}});
  run_ = run_key(run_uid);
  tensors_ = std::move(tensors);
}

void Batch::end_run() {
  if (!parts_.empty() && parts_.back().pos.last < parts_.back().pos.first) parts_.pop_back();
}

void Batch::add(const engine::HistoryStore::LogEntry& entry) {
  if (entry.report) add_report(*entry.report);
  if (entry.input) add_input(*entry.input);
}

void Batch::note_seqs(std::uint32_t rank, const engine::Incarnation& incarnation, std::uint64_t first, std::uint64_t last) {
  const auto [found, is_new] = streams_.try_emplace(Stream{parts_.back().run_uid, rank, incarnation}, Range{first, last});
  if (!is_new) found->second = {std::min(found->second.first, first), std::max(found->second.last, last)};
}

void Batch::add_report(const engine::ReportRow& row) {
  Part& part = parts_.back();
  part.pos.last = row.pos;
  const std::uint16_t day = day_of(row.time_ms);
  bytes_ += row.payload.size();
  note_seqs(row.rank, row.incarnation, row.seq, row.seq);
  const std::uint64_t stream = stream_key(row.incarnation);
  parsed_.Clear();
  std::string rest;
  // Without a payload it is what is left of one that was thinned, or damaged, which the store has said.
  if (!row.payload.empty() && parsed_.ParseFromString(row.payload)) {
    add_records(row, parsed_);
    strip(parsed_);
    rest = parsed_.SerializeAsString();
    add_row(payloads, run_, row.pos, part.term, day, row.rank, stream, row.seq, row.segment, row.attempt, row.time_ms,
            row.payload);
  } else if (!row.payload.empty()) {
    ++unreadable_;
  }
  add_row(reports, run_, row.segment, row.attempt, row.rank, stream, row.seq, part.term, row.pos, day, row.step, row.time_ms,
          static_cast<std::uint8_t>(row.retrospective), row.loss, row.lr, row.grad_norm, rest);
  if (row.retrospective) return;
  for (const auto& scaler : row.scalers) {
    add_row(scalers, run_, row.segment, scaler.scaler, row.attempt, row.rank, row.pos, day, row.step, row.time_ms,
            scaler.scale_before, scaler.scale_after, scaler.growth_tracker, static_cast<std::uint8_t>(scaler.outcome),
            row.loss);
  }
}

void Batch::add_records(const engine::ReportRow& row, v1::Report& report) {
  std::size_t most = 0;
  for (const auto& block : report.blocks()) {
    const std::uint32_t count = history::records_of(block);
    if (count > 0) most = std::max(most, std::size_t{history::id_at(block, count - 1)} + 1);
  }
  if (most == 0) return;
  const auto& tensors = tensors_(row.rank, row.incarnation, most);
  const std::uint64_t stream = stream_key(row.incarnation);
  const std::uint16_t day = day_of(row.time_ms);
  const auto numel = [&](std::uint32_t id) { return id < tensors.size() ? tensors[id].numel : 0; };
  history::for_each_record(report, numel, [&](std::uint32_t id, const history::Measured& measured) {
    const std::uint64_t tensor = id < tensors.size() ? tensors[id].key : 0;
    const Record& r = measured.record;
    add_row(records, run_, row.segment, tensor, row.attempt, row.rank, stream, row.seq, id, day, r.numel, r.nan, r.pos_inf,
            r.neg_inf, r.zero, r.subnormal, r.flushed, r.over, r.min, r.max, r.absmin_nonzero, r.sum, r.sum_sq, measured.scale,
            static_cast<std::uint8_t>(measured.target), measured.micro_batches,
            measured.first_bad_micro ? *measured.first_bad_micro + 1 : 0U, static_cast<std::uint8_t>(row.retrospective));
    ++record_counts_[parts_.back().run_uid];
  });
}

void Batch::add_input(const engine::InputRow& row) {
  Part& part = parts_.back();
  part.pos.last = row.pos;
  bytes_ += row.payload.size();
  add_row(inputs, run_, row.pos, part.term, row.payload);
  try {
    const engine::LoggedInput logged = engine::decode_input(row.payload);
    if (std::holds_alternative<domain::RankJoined>(logged.input) || std::holds_alternative<domain::RankLeft>(logged.input) ||
        std::holds_alternative<domain::SegmentOpened>(logged.input)) {
      part.ranks_changed = true;
    }
    const auto* lost = std::get_if<domain::ReportsLost>(&logged.input);
    if (lost != nullptr && logged.incarnation) note_seqs(lost->rank, *logged.incarnation, lost->first_seq, lost->last_seq);
  } catch (const std::runtime_error&) {
    ++unreadable_;
  }
}

Block Batch::marks(const std::string& instance, std::int64_t now_ms) const {
  Block block(columns_of("batches"));
  std::map<std::string, const Part*> by_run;
  for (const Part& part : parts_) {
    by_run[part.run_uid] = &part;
    const auto counted = record_counts_.find(part.run_uid);
    add_row(block, run_key(part.run_uid), part.term, kNoRank, std::uint64_t{0}, part.pos.first, part.pos.last, part.pos.first,
            part.pos.last, counted == record_counts_.end() ? std::uint64_t{0} : counted->second, instance, now_ms);
  }
  for (const auto& [stream, seqs] : streams_) {
    const auto& [run_uid, rank, incarnation] = stream;
    const Part& part = *by_run.at(run_uid);
    add_row(block, run_key(run_uid), part.term, rank, stream_key(incarnation), seqs.first, seqs.last, part.pos.first,
            part.pos.last, std::uint64_t{0}, instance, now_ms);
  }
  return block;
}

void Batch::clear() {
  for (Block* block : {&records, &reports, &scalers, &inputs, &payloads}) block->clear();
  parts_.clear();
  streams_.clear();
  record_counts_.clear();
  bytes_ = 0;
  unreadable_ = 0;
}

}  // namespace scalewatch::clickhouse
