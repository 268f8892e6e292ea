#include "server/history/clickhouse/shared.h"

#include <algorithm>

#include "scalewatch/v1/ingest.pb.h"
#include "server/engine/report_codec.h"
#include "server/history/clickhouse/claims.h"
#include "server/history/clickhouse/keys.h"
#include "server/history/clickhouse/tables.h"

namespace scalewatch::clickhouse {

namespace {

constexpr std::size_t kPageReports = 1000;
constexpr std::size_t kPageInputs = 20'000;
constexpr std::uint64_t kNoEnd = UINT64_MAX;

std::string run_is(const std::string& run_uid) {
  return "run = " + std::to_string(run_key(run_uid));
}

engine::Incarnation incarnation_of(std::string_view bytes) {
  engine::Incarnation incarnation{};
  bytes.copy(reinterpret_cast<char*>(incarnation.data()), incarnation.size());
  return incarnation;
}

using Streams = std::map<std::pair<std::uint32_t, std::uint64_t>, engine::Incarnation>;

}  // namespace

bool LogCover::holds(std::uint64_t term, std::uint64_t pos) const {
  return std::any_of(windows.begin(), windows.end(),
                     [&](const Window& window) { return window.term == term && window.first <= pos && pos <= window.last; });
}

bool LogCover::reaches(std::uint64_t term, std::uint64_t pos) const {
  return std::any_of(windows.begin(), windows.end(),
                     [&](const Window& window) { return window.term == term && pos <= window.last; });
}

// Who takes a run over goes on after what it found: from the first place of its term on, what earlier owners still sent does
// not count.
LogCover cover_of(const std::vector<Mark>& marks) {
  std::map<std::uint64_t, LogCover::Window, std::greater<>> terms;
  for (const Mark& mark : marks) {
    auto& window = terms.try_emplace(mark.term, LogCover::Window{mark.term, mark.from_pos, mark.to_pos}).first->second;
    window.first = std::min(window.first, mark.from_pos);
    window.last = std::max(window.last, mark.to_pos);
  }
  LogCover cover;
  std::uint64_t below = kNoEnd;
  for (auto& [term, window] : terms) {
    window.last = std::min(window.last, below - 1);
    if (window.first <= window.last) cover.windows.push_back(window);
    below = std::min(below, window.first);
  }
  for (const Mark& mark : marks) {
    if (mark.rank == kNoRank || !cover.holds(mark.term, mark.to_pos)) continue;
    std::uint64_t& seq = cover.seqs[{mark.rank, mark.stream}];
    seq = std::max(seq, mark.last_seq);
  }
  return cover;
}

void Shared::prepare() {
  if (prepared_) return;
  prepare_tables(connection_, options_);
  prepared_ = true;
}

std::string Shared::query(const std::string& sql) {
  std::lock_guard lock(mutex_);
  prepare();
  return connection_.query(sql + " FORMAT RowBinary");
}

std::vector<history::SharedRun> Shared::runs_where(const std::string& where, const std::string& one_of, const std::string& then,
                                                   std::size_t limit) {
  const std::string answer = query(
      "SELECT run_uid, name, created_ms, last_report_ms, segment, status, worst_open, overview, version FROM (SELECT * FROM "
      "runs "
      "WHERE " +
      where + " ORDER BY version DESC LIMIT 1 BY " + one_of + ") WHERE " + then +
      " ORDER BY last_report_ms DESC, run_uid LIMIT " + std::to_string(limit));
  std::vector<history::SharedRun> runs;
  for (RowReader rows(answer); !rows.done();) {
    engine::RunRow& row = runs.emplace_back().row;
    row.run_uid = rows.text();
    row.name = rows.text();
    row.created_ms = rows.i64();
    row.last_report_ms = rows.i64();
    row.segment = rows.u32();
    row.status = rows.get<std::int32_t>();
    row.worst_open = rows.get<std::int32_t>();
    row.overview = rows.text();
    runs.back().row_version = rows.u64();
    runs.back().row_term = term_of(runs.back().row_version);
  }
  std::lock_guard lock(mutex_);
  std::vector<std::uint64_t> names;
  for (const auto& run : runs) names.push_back(name_key(run.row.name));
  const auto claims = newest_claims(connection_, names);
  for (auto& run : runs) {
    const auto found = claims.find(name_key(run.row.name));
    if (found == claims.end()) continue;
    run.instance = found->second.instance;
    run.term = found->second.term;
    run.claimed_ms = found->second.claimed_ms;
  }
  return runs;
}

std::vector<history::SharedRun> Shared::list_runs(std::size_t limit, Which which) {
  constexpr int kRunning = 1;  // v1.RUN_STATUS_RUNNING
  return runs_where("1", "name", which == Which::kAll ? "1" : "status = " + std::to_string(kRunning), limit);
}

std::optional<history::SharedRun> Shared::find_run(const std::string& name_or_uid) {
  for (const char* column : {"run_uid", "name"}) {
    auto runs = runs_where(std::string(column) + " = " + quoted(name_or_uid), column, "1", 1);
    if (!runs.empty()) return std::move(runs.front());
  }
  return std::nullopt;
}

namespace {

constexpr const char* kAlertColumns = "id, run_uid, rule, severity, state, fired_ms, changed_ms, alert";

std::vector<engine::AlertRow> read_alerts(const std::string& answer) {
  std::vector<engine::AlertRow> alerts;
  for (RowReader rows(answer); !rows.done();) {
    engine::AlertRow& alert = alerts.emplace_back();
    alert.id = rows.text();
    alert.run_uid = rows.text();
    alert.rule = rows.text();
    alert.severity = rows.get<std::int32_t>();
    alert.state = rows.get<std::int32_t>();
    alert.fired_ms = rows.i64();
    alert.changed_ms = rows.i64();
    alert.alert = rows.text();
  }
  return alerts;
}

std::string select_alerts(const std::string& where) {
  return std::string("SELECT ") + kAlertColumns + " FROM (SELECT * FROM alerts WHERE " + where +
         " ORDER BY term DESC, changed_ms DESC LIMIT 1 BY run, id)";
}

}  // namespace

std::vector<engine::AlertRow> Shared::open_alerts(std::size_t limit) {
  return read_alerts(query(select_alerts("1") + " WHERE state IN (2, 3) ORDER BY severity DESC, fired_ms DESC, id LIMIT " +
                           std::to_string(limit)));
}

std::uint64_t Shared::claim(const std::string& name, const std::string& instance) {
  std::lock_guard lock(mutex_);
  prepare();
  return claim_name(connection_, name_key(name), instance, clock_.wall_ms());
}

std::map<std::uint32_t, std::uint64_t> Shared::floors(const std::string& run_uid) {
  const std::string answer =
      query("SELECT segment, max(attempt) FROM reports WHERE " + run_is(run_uid) + " GROUP BY segment ORDER BY segment");
  std::map<std::uint32_t, std::uint64_t> floors;
  for (RowReader rows(answer); !rows.done();) {
    const std::uint32_t segment = rows.u32();
    floors[segment] = rows.u64() + 1;
  }
  return floors;
}

namespace {

// A page of entries of one kind, in order of pos, later terms first: what counts of it. Moves `next` to where to go on. Only an
// empty page is the end: a shard cuts its rows before those that are there twice are left out (18.16), so that fewer come than
// were asked for. Where it cut may lie between the terms of a place, which then comes again, first on its page.
template <class Row, class Read>
std::vector<Row> counted(const std::string& answer, const LogCover& cover, std::uint64_t& next, bool& more, const Read& read) {
  std::vector<Row> all;
  std::vector<std::uint64_t> terms;
  for (RowReader rows(answer); !rows.done();) {
    std::uint64_t term = 0;
    all.push_back(read(rows, term));
    terms.push_back(term);
  }
  more = !all.empty();
  std::vector<Row> kept;
  if (all.empty()) return kept;
  const std::uint64_t last = all.back().pos;
  const bool alone = all.front().pos == last;
  next = alone ? last : last - 1;
  for (std::size_t i = 0; i < all.size() && (alone || all[i].pos < last); ++i) {
    if (!cover.holds(terms[i], all[i].pos)) continue;
    if (kept.empty() || kept.back().pos != all[i].pos) kept.push_back(std::move(all[i]));
  }
  return kept;
}

}  // namespace

bool Shared::load_run(const std::string& run_uid, const std::function<void(engine::CommitBatch&&)>& take) {
  const auto run = find_run(run_uid);
  if (!run || run->row.run_uid != run_uid) return false;
  std::vector<Mark> marks;
  const std::string stored =
      query("SELECT term, rank, stream, last_seq, from_pos, to_pos FROM batches WHERE " + run_is(run_uid));
  for (RowReader rows(stored); !rows.done();) {
    marks.push_back({rows.u64(), rows.u32(), rows.u64(), rows.u64(), rows.u64(), rows.u64()});
  }
  const LogCover cover = cover_of(marks);

  engine::CommitBatch head;
  head.runs.push_back(run->row);
  Streams streams;
  const std::string known =
      query("SELECT rank, stream, incarnation, ord, segment, attempt_base, has_left, hello FROM (SELECT * FROM streams WHERE " +
            run_is(run_uid) + " ORDER BY version DESC LIMIT 1 BY rank, stream) ORDER BY rank, ord, stream");
  for (RowReader rows(known); !rows.done();) {
    engine::IncarnationRow& row = head.incarnations.emplace_back();
    row.run_uid = run_uid;
    row.rank = rows.u32();
    const std::uint64_t stream = rows.u64();
    row.incarnation = incarnation_of(rows.bytes(row.incarnation.size()));
    row.order = rows.u64();
    row.segment = rows.u32();
    row.attempt_base = rows.u64();
    row.left = rows.get<std::uint8_t>() != 0;
    row.hello = rows.text();
    const auto seq = cover.seqs.find({row.rank, stream});
    row.durable_seq = seq == cover.seqs.end() ? 0 : seq->second;
    streams[{row.rank, stream}] = row.incarnation;
  }
  const std::string deltas =
      query("SELECT rank, stream, table_version, first_id, delta FROM table_deltas WHERE " + run_is(run_uid) +
            " ORDER BY rank, stream, table_version LIMIT 1 BY rank, stream, table_version");
  for (RowReader rows(deltas); !rows.done();) {
    const std::uint32_t rank = rows.u32();
    const auto stream = streams.find({rank, rows.u64()});
    engine::TableRow row{run_uid, rank, {}, rows.u32(), rows.u32(), std::string(rows.text())};
    if (stream == streams.end()) continue;
    row.incarnation = stream->second;
    head.tables.push_back(std::move(row));
  }
  take(std::move(head));

  engine::CommitBatch tail;
  std::uint64_t from = 0;  // the log after it is needed
  const std::string snapshots =
      query("SELECT version, pos, needs_pos FROM snapshots WHERE " + run_is(run_uid) + " ORDER BY version DESC");
  for (RowReader rows(snapshots); !rows.done();) {
    const std::uint64_t version = rows.u64();
    const std::uint64_t pos = rows.u64();
    const std::uint64_t needs = rows.u64();
    if (!cover.reaches(term_of(version), pos)) continue;
    const std::string state = query("SELECT state FROM snapshots WHERE " + run_is(run_uid) +
                                    " AND version = " + std::to_string(version) + " LIMIT 1");
    if (state.empty()) break;  // merged away meanwhile
    tail.snapshots.push_back({run_uid, pos, std::string(RowReader(state).text())});
    from = needs;
    break;
  }

  const auto inputs_in = [&](std::uint64_t after, std::uint64_t last, std::vector<engine::InputRow>& into) {
    for (bool more = true; more;) {
      const std::string answer = query("SELECT pos, term, payload FROM inputs WHERE " + run_is(run_uid) + " AND pos > " +
                                       std::to_string(after) + " AND pos <= " + std::to_string(last) +
                                       " ORDER BY pos, term DESC LIMIT 1 BY pos, term LIMIT " + std::to_string(kPageInputs));
      auto page = counted<engine::InputRow>(answer, cover, after, more, [&](RowReader& rows, std::uint64_t& term) {
        engine::InputRow row{run_uid, rows.u64(), {}};
        term = rows.u64();
        row.payload = rows.text();
        return row;
      });
      into.insert(into.end(), std::make_move_iterator(page.begin()), std::make_move_iterator(page.end()));
    }
  };
  for (bool more = true; more;) {
    const std::uint64_t after = from;
    const std::string answer =
        query("SELECT pos, term, rank, stream, seq, segment, attempt, time_ms, payload FROM payloads WHERE " + run_is(run_uid) +
              " AND pos > " + std::to_string(after) + " ORDER BY pos, term DESC LIMIT 1 BY pos, term LIMIT " +
              std::to_string(kPageReports));
    auto page = counted<engine::ReportRow>(answer, cover, from, more, [&](RowReader& rows, std::uint64_t& term) {
      const std::uint64_t pos = rows.u64();
      term = rows.u64();
      const std::uint32_t rank = rows.u32();
      const auto stream = streams.find({rank, rows.u64()});
      const std::uint64_t seq = rows.u64();
      const std::uint32_t segment = rows.u32();
      const std::uint64_t attempt = rows.u64();
      const std::int64_t time_ms = rows.i64();
      const std::string_view payload = rows.text();
      v1::Report report;
      engine::ReportRow row;
      if (report.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) row = engine::row_of(report);
      row.run_uid = stream == streams.end() ? "" : run_uid;
      row.rank = rank;
      if (stream != streams.end()) row.incarnation = stream->second;
      row.seq = seq;
      row.pos = pos;
      row.segment = segment;
      row.attempt = attempt;
      row.time_ms = time_ms;
      return row;
    });
    // A stream without a name is one of an owner that never got to tell it.
    std::erase_if(page, [](const engine::ReportRow& row) { return row.run_uid.empty(); });
    engine::CommitBatch batch;
    batch.reports = std::move(page);
    inputs_in(after, more ? from : kNoEnd, batch.inputs);
    if (!batch.empty()) take(std::move(batch));
  }
  tail.alerts = read_alerts(query(select_alerts(run_is(run_uid))));
  if (!tail.empty()) take(std::move(tail));
  return true;
}

}  // namespace scalewatch::clickhouse
