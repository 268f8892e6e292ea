#include "server/history/clickhouse/run_log.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "scalewatch/v1/ingest.pb.h"
#include "server/engine/report_codec.h"
#include "server/history/clickhouse/byte_lanes.h"
#include "server/history/clickhouse/keys.h"
#include "server/history/clickhouse/native.h"
#include "server/history/clickhouse/score_rows.h"

namespace scalewatch::clickhouse {

namespace {

// Places of the log that are read at once: as many as make pages of about so many bytes.
constexpr std::uint64_t kFirstPlaces = 16;
constexpr std::uint64_t kMostPlaces = 32'768;
constexpr std::size_t kPageBytes = std::size_t{32} << 20;

engine::Incarnation incarnation_of(std::string_view bytes) {
  engine::Incarnation incarnation{};
  bytes.copy(reinterpret_cast<char*>(incarnation.data()), incarnation.size());
  return incarnation;
}

std::string places_in(std::uint64_t after, std::uint64_t last) {
  return "pos > " + std::to_string(after) + " AND pos <= " + std::to_string(last);
}

LogCover cover_in(const std::string& stored) {
  std::vector<Mark> marks;
  for (RowReader rows(stored); !rows.done();) {
    marks.push_back({rows.u64(), rows.u32(), rows.u64(), rows.u64(), rows.u64(), rows.u64()});
  }
  return cover_of(marks);
}

// Of entries in order of pos, later terms first: what counts.
template <class Row, class Read>
std::vector<Row> counted(const std::string& answer, const LogCover& cover, const Read& read) {
  std::vector<Row> kept;
  for (RowReader rows(answer); !rows.done();) {
    std::uint64_t term = 0;
    Row row = read(rows, term);
    if (cover.holds(term, row.pos) && (kept.empty() || kept.back().pos != row.pos)) kept.push_back(std::move(row));
  }
  return kept;
}

}  // namespace

RunLog::RunLog(Query query, const std::string& run_uid)
    : query_(std::move(query)),
      run_uid_(run_uid),
      run_is_("run = " + std::to_string(run_key(run_uid))),
      cover_(
          cover_in(query_("batches", "SELECT term, rank, stream, last_seq, from_pos, to_pos FROM batches WHERE " + run_is_))) {}

void RunLog::read(const engine::RunRow& run, const Take& take, engine::CommitBatch& newest) {
  take(head(run));
  const std::uint64_t begin = snapshot(newest);
  std::uint64_t after = begin;
  for (std::uint64_t places = kFirstPlaces, end = cover_.end(); after < end;) {
    std::uint64_t last = std::min(end, after + places);
    engine::CommitBatch batch;
    std::size_t bytes = 0;
    batch.reports = reports(after, last, bytes);
    batch.inputs = inputs(after, last, bytes);
    if (!batch.empty()) {
      take(std::move(batch));
    } else if (const auto next = next_place(last)) {
      last = *next - 1;
    } else {
      break;
    }
    after = last;
    const std::uint64_t more = bytes < kPageBytes / 2 ? places * 2 : places * kPageBytes / bytes;
    places = std::clamp<std::uint64_t>(more, 1, kMostPlaces);
  }
  gone_ = count_gone(begin);
  if (gone_ == 0) return;
  spdlog::error(
      "history.clickhouse: {} reports of run '{}' are in the shared history but not as they were received, as those older than "
      "keep_log: its state and findings go without them",
      gone_, run.name);
}

std::uint64_t RunLog::count_gone(std::uint64_t after) {
  const std::string here = run_is_ + " AND " + places_in(after, cover_.end());
  const std::string answer =
      query_("reports", "SELECT uniqExact(pos) FROM reports WHERE " + here + " AND records > 0 AND records < " +
                            std::to_string(kUnscored) + " AND pos GLOBAL NOT IN (SELECT pos FROM payloads WHERE " + here + ")");
  return RowReader(answer).u64();
}

engine::CommitBatch RunLog::head(const engine::RunRow& run) {
  engine::CommitBatch head;
  head.runs.push_back(run);
  const std::string known = query_(
      "streams",
      "SELECT rank, stream, incarnation, ord, segment, attempt_base, has_left, hello FROM (SELECT * FROM streams WHERE " +
          run_is_ + " ORDER BY version DESC LIMIT 1 BY rank, stream) ORDER BY rank, ord, stream");
  for (RowReader rows(known); !rows.done();) {
    engine::IncarnationRow& row = head.incarnations.emplace_back();
    row.run_uid = run_uid_;
    row.rank = rows.u32();
    const std::uint64_t stream = rows.u64();
    row.incarnation = incarnation_of(rows.bytes(row.incarnation.size()));
    row.order = rows.u64();
    row.segment = rows.u32();
    row.attempt_base = rows.u64();
    row.left = rows.get<std::uint8_t>() != 0;
    row.hello = rows.text();
    const auto seq = cover_.seqs.find({row.rank, stream});
    row.durable_seq = seq == cover_.seqs.end() ? 0 : seq->second;
    streams_[{row.rank, stream}] = row.incarnation;
  }
  const std::string deltas =
      query_("table_deltas", "SELECT rank, stream, table_version, first_id, delta FROM table_deltas WHERE " + run_is_ +
                                 " ORDER BY rank, stream, table_version LIMIT 1 BY rank, stream, table_version");
  for (RowReader rows(deltas); !rows.done();) {
    const std::uint32_t rank = rows.u32();
    const auto stream = streams_.find({rank, rows.u64()});
    engine::TableRow row{run_uid_, rank, {}, rows.u32(), rows.u32(), std::string(rows.text())};
    if (stream == streams_.end()) continue;
    row.incarnation = stream->second;
    head.tables.push_back(std::move(row));
  }
  return head;
}

std::uint64_t RunLog::snapshot(engine::CommitBatch& into) {
  const std::string snapshots =
      query_("snapshots", "SELECT version, pos, needs_pos FROM snapshots WHERE " + run_is_ + " ORDER BY version DESC");
  for (RowReader rows(snapshots); !rows.done();) {
    const std::uint64_t version = rows.u64();
    const std::uint64_t pos = rows.u64();
    const std::uint64_t needs = rows.u64();
    if (!cover_.reaches(term_of(version), pos)) continue;
    const std::string state = query_(
        "snapshots", "SELECT state FROM snapshots WHERE " + run_is_ + " AND version = " + std::to_string(version) + " LIMIT 1");
    if (state.empty()) break;  // merged away meanwhile
    into.snapshots.push_back({run_uid_, pos, std::string(RowReader(state).text())});
    return needs;
  }
  return 0;
}

// Conditions on places alone: a condition that sorts and cuts would have ClickHouse hold the payloads of all that follows.
std::vector<engine::ReportRow> RunLog::reports(std::uint64_t after, std::uint64_t last, std::size_t& bytes) {
  const std::string answer =
      query_("payloads", "SELECT pos, term, rank, stream, seq, segment, attempt, time_ms, payload, lanes FROM payloads WHERE " +
                             run_is_ + " AND " + places_in(after, last) + " ORDER BY pos, term DESC LIMIT 1 BY pos, term");
  bytes += answer.size();
  auto page = counted<engine::ReportRow>(answer, cover_, [&](RowReader& rows, std::uint64_t& term) {
    const std::uint64_t pos = rows.u64();
    term = rows.u64();
    const std::uint32_t rank = rows.u32();
    const auto stream = streams_.find({rank, rows.u64()});
    const std::uint64_t seq = rows.u64();
    const std::uint32_t segment = rows.u32();
    const std::uint64_t attempt = rows.u64();
    const std::int64_t time_ms = rows.i64();
    const std::string payload = read_payload(rows);
    v1::Report report;
    engine::ReportRow row;
    if (report.ParseFromString(payload)) row = engine::row_of(report);
    row.run_uid = stream == streams_.end() ? "" : run_uid_;
    row.rank = rank;
    if (stream != streams_.end()) row.incarnation = stream->second;
    row.seq = seq;
    row.pos = pos;
    row.segment = segment;
    row.attempt = attempt;
    row.time_ms = time_ms;
    return row;
  });
  // A stream without a name is one of an owner that never got to tell it.
  std::erase_if(page, [](const engine::ReportRow& row) { return row.run_uid.empty(); });
  return page;
}

std::vector<engine::InputRow> RunLog::inputs(std::uint64_t after, std::uint64_t last, std::size_t& bytes) {
  const std::string answer = query_("inputs", "SELECT pos, term, payload FROM inputs WHERE " + run_is_ + " AND " +
                                                  places_in(after, last) + " ORDER BY pos, term DESC LIMIT 1 BY pos, term");
  bytes += answer.size();
  return counted<engine::InputRow>(answer, cover_, [&](RowReader& rows, std::uint64_t& term) {
    engine::InputRow row{run_uid_, rows.u64(), {}};
    term = rows.u64();
    row.payload = rows.text();
    return row;
  });
}

std::optional<std::uint64_t> RunLog::next_place(std::uint64_t after) {
  std::optional<std::uint64_t> next;
  for (const char* table : {"payloads", "inputs"}) {
    const std::string answer = query_(table, std::string("SELECT count(), min(pos) FROM ") + table + " WHERE " + run_is_ +
                                                 " AND " + places_in(after, cover_.end()));
    RowReader row(answer);
    const bool any = row.u64() > 0;
    if (const std::uint64_t pos = row.u64(); any && (!next || pos < *next)) next = pos;
  }
  return next;
}

}  // namespace scalewatch::clickhouse
