#include "server/history/clickhouse/batch.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "server/engine/input_codec.h"
#include "server/history/clickhouse/byte_lanes.h"
#include "server/history/clickhouse/keys.h"
#include "server/history/clickhouse/log_cover.h"
#include "server/history/clickhouse/score_rows.h"
#include "server/history/clickhouse/tables.h"

namespace scalewatch::clickhouse {

namespace {

// Columns of `records`.
enum RecordColumn : std::uint8_t {
  kRun,
  kSegment,
  kTensor,
  kAttempt,
  kRank,
  kStream,
  kSeq,
  kId,
  kDay,
  kNumel,
  kNan,
  kPosInf,
  kNegInf,
  kZero,
  kSubnormal,
  kFlushed,
  kOver,
  kMin,
  kMax,
  kAbsmin,
  kSum,
  kSumSq,
  kScale,
  kTarget,
  kMicroBatches,
  kFirstBad,
  kRetrospective
};

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
    : records(columns_of("records"), Block::Zeros::kLeftOut),
      scores(columns_of("scores")),
      non_finite(columns_of("non_finite")),
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
  std::uint32_t count = 0;
  // Without a payload it is what is left of one that was thinned, or damaged, which the store has said.
  if (!row.payload.empty() && parsed_.ParseFromString(row.payload)) {
    count = add_records(row, parsed_);
    strip(parsed_);
    rest = parsed_.SerializeAsString();
    add_row(payloads, run_, row.pos, part.term, day, row.rank, stream, row.seq, row.segment, row.attempt, row.time_ms,
            to_lanes(row.payload), std::uint8_t{1});
  } else if (!row.payload.empty()) {
    ++unreadable_;
  }
  add_row(reports, run_, row.segment, row.attempt, row.rank, stream, row.seq, part.term, row.pos, day, row.step, row.time_ms,
          static_cast<std::uint8_t>(row.retrospective), row.loss, row.lr, row.grad_norm, count, rest, std::uint8_t{1});
  if (row.retrospective) return;
  for (const auto& scaler : row.scalers) {
    add_row(scalers, run_, row.segment, scaler.scaler, row.attempt, row.rank, row.pos, day, row.step, row.time_ms,
            scaler.scale_before, scaler.scale_after, scaler.growth_tracker, static_cast<std::uint8_t>(scaler.outcome),
            row.loss);
  }
}

std::uint32_t Batch::add_records(const engine::ReportRow& row, v1::Report& report) {
  std::size_t most = 0;
  for (const auto& block : report.blocks()) {
    const std::uint32_t count = history::records_of(block);
    if (count > 0) most = std::max(most, std::size_t{history::id_at(block, count - 1)} + 1);
  }
  if (most == 0) return 0;
  const auto& tensors = tensors_(row.rank, row.incarnation, most);
  const std::uint64_t stream = stream_key(row.incarnation);
  const std::uint16_t day = day_of(row.time_ms);
  const auto numel = [&](std::uint32_t id) { return id < tensors.size() ? tensors[id].numel : 0; };
  measured_.clear();
  history::add_records(report, numel, measured_);
  // Column by column, in the order of the table.
  std::size_t column = 0;
  const std::size_t count = measured_.size();
  const auto same = [&](auto value) { records[column++].add_each(count, [&](std::size_t) { return value; }); };
  const auto each = [&](const auto& of) { records[column++].add_each(count, [&](std::size_t i) { return of(measured_[i]); }); };
  const auto number = [&](auto Record::*field) { each([&](const auto& one) { return one.second.record.*field; }); };
  same(run_);
  same(row.segment);
  each([&](const auto& one) { return one.first < tensors.size() ? tensors[one.first].key : std::uint64_t{0}; });
  same(row.attempt);
  same(row.rank);
  same(stream);
  same(row.seq);
  each([](const auto& one) { return one.first; });
  same(day);
  for (const auto field : {&Record::numel, &Record::nan, &Record::pos_inf, &Record::neg_inf, &Record::zero, &Record::subnormal,
                           &Record::flushed, &Record::over}) {
    number(field);
  }
  for (const auto field : {&Record::min, &Record::max, &Record::absmin_nonzero}) number(field);
  number(&Record::sum);
  number(&Record::sum_sq);
  each([](const auto& one) { return one.second.scale; });
  each([](const auto& one) { return static_cast<std::uint8_t>(one.second.target); });
  each([](const auto& one) { return one.second.micro_batches; });
  each([](const auto& one) { return one.second.first_bad_micro ? *one.second.first_bad_micro + 1 : 0U; });
  same(static_cast<std::uint8_t>(row.retrospective));
  rows_.push_back({run_, row.segment, row.attempt, row.rank, stream, row.seq, records.rows(), count});
  records.row_done(count);
  record_counts_[parts_.back().run_uid] += count;
  return static_cast<std::uint32_t>(count);
}

void Batch::finish() {
  if (rows_.empty()) return;
  sort_records();
  add_scores();
  rows_.clear();
}

void Batch::add_scores() {
  ScoreRows groups;
  for (std::size_t i = 0; i < records.rows(); ++i) {
    if (records[kRetrospective].at<std::uint8_t>(i) != 0) continue;
    const auto whole = [&](RecordColumn column) { return records[column].at<std::uint64_t>(i); };
    const auto small = [&](RecordColumn column) { return records[column].at<std::uint32_t>(i); };
    history::Measured measured;
    Record& record = measured.record;
    record.numel = whole(kNumel);
    record.nan = whole(kNan);
    record.pos_inf = whole(kPosInf);
    record.neg_inf = whole(kNegInf);
    record.zero = whole(kZero);
    record.subnormal = whole(kSubnormal);
    record.min = records[kMin].at<float>(i);
    record.max = records[kMax].at<float>(i);
    record.sum_sq = records[kSumSq].at<double>(i);
    measured.scale = records[kScale].at<double>(i);
    measured.target = static_cast<DType>(records[kTarget].at<std::uint8_t>(i));
    const auto day = records[kDay].at<std::uint16_t>(i);
    groups.add(whole(kRun), small(kSegment), whole(kTensor), whole(kAttempt), day, measured);
    if (record.non_finite() == 0) continue;
    add_row(non_finite, whole(kRun), small(kSegment), whole(kAttempt), whole(kTensor), small(kRank), whole(kStream),
            whole(kSeq), small(kId), day, std::uint64_t{record.non_finite()});
  }
  groups.take(scores);
}

// Reports are few and name much the same tensors: rows are dealt out to these, report by report.
void Batch::sort_records() {
  std::sort(rows_.begin(), rows_.end());
  std::vector<std::uint32_t> number(records.rows());  // of a row's tensor; then the row's place
  std::size_t next_place = 0;
  for (std::size_t begin = 0, end = 0; begin < rows_.size(); begin = end) {
    std::unordered_map<std::uint64_t, std::uint32_t> numbers;
    std::vector<std::pair<std::uint64_t, std::uint32_t>> tensors;  // with its number
    std::vector<std::size_t> place;                                // of the next row, by number
    for (; end < rows_.size() && rows_[end].run == rows_[begin].run && rows_[end].segment == rows_[begin].segment; ++end) {
      const Rows& before = rows_[end == begin ? end : end - 1];
      for (std::size_t i = 0; i < rows_[end].count; ++i) {
        const std::size_t row = rows_[end].first + i;
        const auto tensor = records[kTensor].at<std::uint64_t>(row);
        if (end > begin && i < before.count && records[kTensor].at<std::uint64_t>(before.first + i) == tensor) {
          number[row] = number[before.first + i];
        } else {
          const auto [found, is_new] = numbers.try_emplace(tensor, static_cast<std::uint32_t>(numbers.size()));
          if (is_new) {
            tensors.emplace_back(tensor, found->second);
            place.push_back(0);
          }
          number[row] = found->second;
        }
        ++place[number[row]];
      }
    }
    std::sort(tensors.begin(), tensors.end());
    for (const auto& [tensor, its] : tensors) next_place += std::exchange(place[its], next_place);
    for (std::size_t i = begin; i < end; ++i) {
      for (std::size_t row = rows_[i].first; row < rows_[i].first + rows_[i].count; ++row) {
        number[row] = static_cast<std::uint32_t>(place[number[row]]++);
      }
    }
  }
  records.reorder(number);
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
  for (Block* block : {&records, &scores, &non_finite, &reports, &scalers, &inputs, &payloads}) block->clear();
  parts_.clear();
  streams_.clear();
  record_counts_.clear();
  rows_.clear();
  bytes_ = 0;
  unreadable_ = 0;
}

}  // namespace scalewatch::clickhouse
