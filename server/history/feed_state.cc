#include "server/history/feed_state.h"

#include <algorithm>

#include "server/engine/crc.h"
#include "server/history/rows.h"

namespace scalewatch::history {

namespace {

void put_streams(Connection& writer, const std::map<FeedState::Stream, std::uint64_t>& seqs) {
  for (const auto& [stream, seq] : seqs) {
    const auto& [run_uid, rank, incarnation] = stream;
    Query(
        writer,
        "INSERT INTO feed_streams (stream, seq) SELECT id, ? FROM streams WHERE run = (SELECT id FROM runs WHERE uid = ?) AND "
        "rank = ? AND incarnation = ? ON CONFLICT (stream) DO UPDATE SET seq = max(seq, excluded.seq)",
        seq, run_uid, rank, bytes_of(incarnation))
        .run();
  }
}

// Each change of an alert has a later time.
std::vector<FeedState::RowMark> read_row_marks(SqliteStore& store, const std::string& where, const std::string& run_uid,
                                               std::size_t limit) {
  ReadPool::Lease lease(store.readers(), ReadPool::Limit::kNone);
  Query query(*lease,
              "SELECT uid, row_mark, overview, printf('%s %d %d %d %d %d ', name, created_ms, last_report_ms, segment, status, "
              "worst_open) || (SELECT printf('%d %d %d', count(*), sum(changed_ms), sum(state)) FROM alerts WHERE "
              "alerts.run_uid = uid) FROM runs LEFT JOIN feed_runs ON feed_runs.run_uid = uid WHERE uid " +
                  where + " ? ORDER BY uid LIMIT ?",
              run_uid, limit);
  std::vector<FeedState::RowMark> marks;
  while (query.step()) {
    marks.push_back({query.bytes(0), engine::crc32_of(query.bytes(2), engine::crc32_of(query.bytes(3))),
                     query.is_null(1) ? std::nullopt : std::optional(query.u32(1))});
  }
  return marks;
}

}  // namespace

FeedState::Progress FeedState::progress(const std::string& run_uid) {
  ReadPool::Lease lease(store_.readers());
  Query query(*lease, "SELECT pos, intent, term FROM feed_runs WHERE run_uid = ?", run_uid);
  if (!query.step()) return {};
  return {query.u64(0), query.u64(1), query.is_null(2) ? std::nullopt : std::optional(query.u64(2))};
}

std::map<FeedState::Stream, std::uint64_t> FeedState::streams(const std::string& run_uid) {
  ReadPool::Lease lease(store_.readers(), ReadPool::Limit::kNone);
  Query query(*lease,
              "SELECT streams.rank, streams.incarnation, feed_streams.seq FROM runs JOIN streams ON streams.run = runs.id JOIN "
              "feed_streams ON feed_streams.stream = streams.id WHERE runs.uid = ?",
              run_uid);
  std::map<Stream, std::uint64_t> seqs;
  while (query.step()) seqs[{run_uid, query.u32(0), incarnation_from(query.bytes(1))}] = query.u64(2);
  return seqs;
}

std::vector<std::string> FeedState::behind() {
  ReadPool::Lease lease(store_.readers(), ReadPool::Limit::kNone);
  Query query(
      *lease,
      "SELECT uid FROM (SELECT uid, max(coalesce((SELECT max(pos) FROM reports WHERE run = runs.id), 0), "
      "coalesce((SELECT max(pos) FROM inputs WHERE run = runs.id), 0)) AS newest, coalesce((SELECT pos FROM feed_runs WHERE "
      "run_uid = uid), 0) AS sent FROM runs) WHERE newest > sent ORDER BY uid");
  std::vector<std::string> runs;
  while (query.step()) runs.push_back(query.bytes(0));
  return runs;
}

std::optional<FeedState::RowMark> FeedState::row_mark(const std::string& run_uid) {
  auto marks = read_row_marks(store_, "=", run_uid, 1);
  return marks.empty() ? std::nullopt : std::optional(std::move(marks.front()));
}

std::vector<FeedState::RowMark> FeedState::row_marks(const std::string& after, std::size_t limit) {
  return read_row_marks(store_, ">", after, limit);
}

void FeedState::rows_sent(const std::map<std::string, std::uint32_t>& marks) {
  store_.write(WriteClass::kCompaction, [&](Connection& writer) {
    for (const auto& [run_uid, mark] : marks) {
      Query(writer,
            "INSERT INTO feed_runs (run_uid, pos, intent, term, row_mark) SELECT uid, 0, 0, 0, ? FROM runs WHERE uid = ? ON "
            "CONFLICT (run_uid) DO UPDATE SET row_mark = excluded.row_mark",
            mark, run_uid)
          .run();
    }
  });
}

void FeedState::intend(const std::map<std::string, std::uint64_t>& to_pos) {
  store_.write(WriteClass::kCompaction, [&](Connection& writer) {
    for (const auto& [run_uid, pos] : to_pos) {
      Query(
          writer,
          "INSERT INTO feed_runs (run_uid, pos, intent, term) VALUES (?, 0, ?, 0) ON CONFLICT (run_uid) DO UPDATE SET intent = "
          "excluded.intent",
          run_uid, pos)
          .run();
    }
  });
}

void FeedState::sent(const std::map<std::string, std::uint64_t>& to_pos, const std::map<Stream, std::uint64_t>& seqs) {
  store_.write(WriteClass::kCompaction, [&](Connection& writer) {
    for (const auto& [run_uid, pos] : to_pos) {
      Query(writer, "UPDATE feed_runs SET pos = ?, intent = ? WHERE run_uid = ?", pos, pos, run_uid).run();
    }
    put_streams(writer, seqs);
  });
}

namespace {

// Of `runs`. What retention has removed was sent.
constexpr const char* kLastPlace =
    "max(coalesce((SELECT max(pos) FROM reports WHERE run = runs.id), 0), coalesce((SELECT max(pos) FROM inputs WHERE run = "
    "runs.id), 0), coalesce((SELECT max(pos) FROM snapshots WHERE run = runs.id), 0), feed_runs.pos)";

}  // namespace

void FeedState::doubt_all() {
  store_.write(WriteClass::kCommit, [](Connection& writer) {
    writer.execute((std::string("UPDATE feed_runs SET term = coalesce(term, 0), last_place = (SELECT ") + kLastPlace +
                    " FROM runs WHERE uid = run_uid) WHERE last_place IS NULL")
                       .c_str());
  });
}

std::vector<std::string> FeedState::doubted() {
  ReadPool::Lease lease(store_.readers(), ReadPool::Limit::kNone);
  Query query(*lease, "SELECT run_uid FROM feed_runs WHERE last_place IS NOT NULL ORDER BY run_uid");
  std::vector<std::string> runs;
  while (query.step()) runs.push_back(query.bytes(0));
  return runs;
}

void FeedState::trust(const std::string& run_uid) {
  store_.write(WriteClass::kCompaction, [&](Connection& writer) {
    Query(writer, "UPDATE feed_runs SET last_place = NULL WHERE run_uid = ?", run_uid).run();
  });
}

std::uint64_t FeedState::last_place(const std::string& run_uid) {
  ReadPool::Lease lease(store_.readers());
  Query query(*lease,
              (std::string("SELECT coalesce(feed_runs.last_place, ") + kLastPlace +
               ") FROM runs JOIN feed_runs ON feed_runs.run_uid = uid WHERE uid = ?")
                  .c_str(),
              run_uid);
  return query.step() ? query.u64(0) : 0;
}

void FeedState::owned(const std::string& run_uid, std::uint64_t term) {
  store_.write(WriteClass::kCommit, [&](Connection& writer) {
    Query(writer,
          "INSERT INTO feed_runs (run_uid, pos, intent, term) VALUES (?, 0, 0, ?) ON CONFLICT (run_uid) DO UPDATE SET term = "
          "excluded.term, last_place = NULL",
          run_uid, term)
        .run();
  });
}

void FeedState::imported(const std::string& run_uid, std::uint64_t term, std::uint64_t pos,
                         const std::map<std::uint32_t, std::uint64_t>& floors, const std::map<Stream, std::uint64_t>& seqs) {
  store_.write(WriteClass::kCommit, [&](Connection& writer) {
    Query(writer, "INSERT OR REPLACE INTO feed_runs (run_uid, pos, intent, term) VALUES (?, ?, ?, ?)", run_uid, pos, pos, term)
        .run();
    Query(writer, "DELETE FROM shared_floors WHERE run_uid = ?", run_uid).run();
    for (const auto& [segment, attempt] : floors) {
      Query(writer, "INSERT INTO shared_floors (run_uid, segment, attempt) VALUES (?, ?, ?)", run_uid, segment, attempt).run();
    }
    put_streams(writer, seqs);
  });
}

std::uint64_t shared_floor(Connection& connection, std::int64_t run, std::uint32_t segment) {
  std::uint64_t floor = 0;
  {
    Query query(connection,
                "SELECT attempt FROM shared_floors WHERE run_uid = (SELECT uid FROM runs WHERE id = ?) AND segment = ?", run,
                segment);
    if (query.step()) floor = query.u64(0);
  }
  Query query(
      connection,
      "SELECT max(stretches.last_attempt) FROM streams JOIN stretches INDEXED BY stretches_by_stream ON stretches.stream = "
      "streams.id JOIN feed_streams ON feed_streams.stream = streams.id WHERE streams.run = ? AND streams.segment = ? AND "
      "stretches.thinned = 1 AND stretches.last_seq <= feed_streams.seq",
      run, segment);
  if (query.step() && !query.is_null(0)) floor = std::max(floor, query.u64(0) + 1);
  return floor;
}

}  // namespace scalewatch::history
