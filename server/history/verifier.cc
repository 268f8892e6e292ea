#include "server/history/verifier.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>

#include "scalewatch/v1/alerts.pb.h"
#include "scalewatch/v1/history.pb.h"
#include "scalewatch/v1/ingest.pb.h"
#include "server/engine/ports/history_store.h"
#include "server/history/keys.h"
#include "server/history/row_check.h"
#include "server/history/seal.h"
#include "server/names/escape.h"

namespace scalewatch::history {

namespace {

constexpr std::size_t kMaxFaults = 1000;
constexpr const char* kIntegrity = "PRAGMA integrity_check(50)";

// A summary without what packing it differently would change.
std::string repacked(std::string_view blob, std::size_t reports, const std::vector<std::uint64_t>& numels) {
  SummariesView view;
  if (!view.open(blob, reports) || view.tensors() != numels.size()) return {};
  std::vector<TensorSummary> tensors;
  for (std::size_t i = 0; i < view.tensors(); ++i) tensors.push_back(view.at(i, numels[i]));
  return write_summaries(tensors, reports, numels);
}

}  // namespace

void Verifier::fault(std::string what, std::string repaired) {
  ++result_.faults_found;
  if (repaired.empty()) ++result_.faults_left;
  if (result_.faults.size() < kMaxFaults) result_.faults.push_back({std::move(what), std::move(repaired)});
}

Verified Verifier::run() {
  check_structure();
  check_owners();
  check_tables();
  check_stretches();
  check_reports();
  check_messages<v1::GetRunResponse>("SELECT id, name, overview FROM runs WHERE id > ? ORDER BY id LIMIT 64", "run ");
  check_messages<v1::Hello>("SELECT id, id, hello FROM streams WHERE id > ? ORDER BY id LIMIT 64", "the hello of stream ");
  check_messages<v1::Alert>("SELECT rowid, id, alert FROM alerts WHERE rowid > ? ORDER BY rowid LIMIT 64", "alert ", false);
  check_messages<v1::Silence>("SELECT rowid, id, silence FROM silences WHERE rowid > ? ORDER BY rowid LIMIT 64", "silence ",
                              false);
  return std::move(result_);
}

void Verifier::check_structure() {
  const auto problems = [&] {
    std::vector<std::string> found;
    Query check(connection_, kIntegrity);
    while (check.step()) {
      if (std::string line = check.bytes(0); line != "ok") found.push_back(std::move(line));
    }
    return found;
  };
  const auto before = problems();
  if (before.empty()) return;
  std::vector<std::string> after = before;
  if (repair_) {
    // Indexes are made of the tables; pages that are lost are not made of anything.
    connection_.execute("REINDEX");
    after = problems();
  }
  for (const auto& line : before) {
    const bool left = std::find(after.begin(), after.end(), line) != after.end();
    fault("the database: " + line, left ? "" : "the indexes were made anew");
  }
}

bool Verifier::next_stretch(std::int64_t after, Stretch& stretch) {
  Query row(connection_,
            "SELECT stream, number, reports, first_attempt, last_attempt, first_seq, last_seq, thinned, attempts, detail "
            "FROM stretches WHERE id > ? ORDER BY id LIMIT 1",
            after);
  if (!row.step()) return false;
  stretch.place = {row.i64(0), row.i64(1), static_cast<std::size_t>(row.i64(2)), row.u64(3), row.u64(4)};
  stretch.first_seq = row.u64(5);
  stretch.last_seq = row.u64(6);
  stretch.thinned = row.i64(7) != 0;
  stretch.attempts = row.bytes(8);
  stretch.detail = row.bytes(9);
  return true;
}

void Verifier::check_stretches() {
  const auto all = static_cast<double>(std::max<std::int64_t>(1, connection_.scalar("SELECT count(*) FROM stretches")));
  std::int64_t after = -1;
  Stretch stretch;
  for (bool more = true; more;) {
    // A view of one stretch and all that belongs to it; short, for the sake of a server that runs.
    connection_.execute("BEGIN");
    try {
      more = next_stretch(after, stretch);
      if (more) check_stretch(stretch);
      connection_.execute("COMMIT");
    } catch (...) {
      connection_.rollback();
      throw;
    }
    after = stretch_key(stretch.place.stream, stretch.place.number);
    if (more && !progress_(static_cast<double>(++result_.stretches) / all)) throw engine::StoreError("interrupted", true);
  }
}

const std::vector<TableTensor>& Verifier::table(std::int64_t stream) {
  if (table_stream_ != stream) table_ = stored_table(connection_, stream);
  table_stream_ = stream;
  return table_;
}

void Verifier::check_stretch(const Stretch& stretch) {
  const auto& place = stretch.place;
  const std::string where = "stream " + std::to_string(place.stream) + ", attempts " + std::to_string(place.first) + " to " +
                            std::to_string(place.last);
  if (place.reports == 0 || place.reports > kStretchReports) {
    fault(where + ": a stretch of " + std::to_string(place.reports) + " reports");
    return;
  }
  check_attempts(stretch, where);
  // Empty says that it is gone, which readers know: thinned, or what an earlier repair could only remove.
  if (!stretch.detail.empty() && !StretchDetail().open(stretch.detail, place.reports)) {
    if (repair_) {
      Query(connection_, "UPDATE stretches SET detail = x'' WHERE id = ?", stretch_key(place.stream, place.number)).run();
    }
    fault(where + ": what is not in chunks can't be read",
          repair_ ? "removed: scaler observations and records are in other tables and stay" : "");
  }
  // Without its tensors a chunk can't be told from a damaged one, and must not be removed for that.
  if (broken_tables_.contains(place.stream)) return;
  const std::size_t blocks = (table(place.stream).size() + kChunkTensors - 1) / kChunkTensors;
  for (std::uint32_t block = 0; block < blocks; ++block) check_block(stretch, block, where);
}

void Verifier::check_attempts(const Stretch& stretch, const std::string& where) {
  const auto& place = stretch.place;
  const auto attempts = read_attempts(stretch.attempts, place.reports);
  if (attempts.size() == place.reports && attempts.front() == place.first && attempts.back() == place.last &&
      std::adjacent_find(attempts.begin(), attempts.end(), std::greater_equal<>()) == attempts.end()) {
    return;
  }
  std::vector<std::uint64_t> found;
  {
    Query rows(connection_,
               "SELECT attempt FROM reports WHERE stream = ? AND seq BETWEEN ? AND ? AND NOT retrospective ORDER BY seq",
               place.stream, stretch.first_seq, stretch.last_seq);
    while (rows.step()) found.push_back(rows.u64(0));
  }
  const bool known = found.size() == place.reports;
  if (repair_ && known) {
    Query(connection_, "UPDATE stretches SET attempts = ?, first_attempt = ?, last_attempt = ? WHERE id = ?",
          Blob{write_attempts(found)}, found.front(), found.back(), stretch_key(place.stream, place.number))
        .run();
  }
  fault(where + ": the list of attempts can't be read", repair_ && known ? "made anew from the reports" : "");
}

std::optional<ChunkRow> Verifier::read_chunk(const Stretch& stretch, std::uint32_t block, std::string_view blob) {
  if (seal_of_chunk(blob) == Seal::kBroken) return std::nullopt;
  const auto& tensors = table(stretch.place.stream);
  const std::uint32_t begin = block * kChunkTensors;
  std::uint32_t first = 0;
  std::memcpy(&first, blob.data(), sizeof first);
  const std::size_t count = first / kOffsetBytes - 1;
  if (count > kChunkTensors) return std::nullopt;
  // A list that can't be read is told of before: without it there is all but the scores.
  auto attempts = read_attempts(stretch.attempts, stretch.place.reports);
  const bool known = !attempts.empty();
  attempts.resize(stretch.place.reports);
  ChunkBuilder builder(block, count, attempts);
  FrameView view;
  TensorRows rows;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t id = begin + i;
    const TableTensor tensor = id < tensors.size() ? tensors[id] : TableTensor{};
    rows.places.clear();
    rows.rows.clear();
    if (const auto bytes = frame_of(blob, i); !bytes.empty()) {
      if (!view.open(bytes, stretch.place.reports, tensor.numel)) return std::nullopt;
      view.read(rows);
    }
    builder.set(i, rows, tensor.numel, tensor.name);
  }
  ChunkRow chunk = builder.finish();
  if (!known) chunk.scores.clear();
  return chunk;
}

std::optional<ChunkRow> Verifier::rebuilt(const Stretch& stretch, std::uint32_t block) {
  StretchBuilder builder(table(stretch.place.stream));
  {
    Query rows(
        connection_,
        "SELECT attempt, payload FROM reports JOIN payloads ON payloads.id = reports.id WHERE stream = ? AND seq BETWEEN ? "
        "AND ? AND NOT retrospective ORDER BY seq",
        stretch.place.stream, stretch.first_seq, stretch.last_seq);
    while (rows.step()) {
      const auto payload = unsealed(rows, 1);
      if (!payload || !builder.add(rows.u64(0), *payload)) return std::nullopt;
    }
  }
  if (builder.size() != stretch.place.reports) return std::nullopt;
  std::optional<ChunkRow> found;
  builder.chunks([&](ChunkRow row) {
    if (row.block == block) found = std::move(row);
  });
  return found;
}

void Verifier::give_up(const Stretch& stretch, std::uint32_t block, bool summary_stays) {
  const auto& place = stretch.place;
  const std::int64_t chunk = chunk_key(place.stream, place.number, block);
  if (summary_stays) {
    Query(connection_, "INSERT OR REPLACE INTO chunks (id, frames) VALUES (?, x'')", chunk).run();
    return;
  }
  Query(connection_, "DELETE FROM chunks WHERE id = ?", chunk).run();
  Query(connection_, "DELETE FROM summaries WHERE id = ?", summary_key(place.stream, block, place.number)).run();
}

void Verifier::check_block(const Stretch& stretch, std::uint32_t block, const std::string& where) {
  const auto& place = stretch.place;
  std::string blob;
  std::string summaries;
  bool has_chunk = false;
  bool has_summary = false;
  std::uint64_t records = 0;
  {
    Query row(connection_, "SELECT frames FROM chunks WHERE id = ?", chunk_key(place.stream, place.number, block));
    if ((has_chunk = row.step())) blob = row.bytes(0);
  }
  {
    Query row(connection_, "SELECT records, tensors FROM summaries WHERE id = ?",
              summary_key(place.stream, block, place.number));
    if ((has_summary = row.step())) {
      records = row.u64(0);
      summaries = row.bytes(1);
    }
  }
  if (!has_chunk && !has_summary) return;
  const std::string what =
      where + ", tensors " + std::to_string(block * kChunkTensors) + " to " + std::to_string(block * kChunkTensors + 63);
  SummariesView view;
  const bool summary_good = has_summary && view.open(summaries, place.reports);
  if (stretch.thinned) {
    if (!summary_good) fault(what + ": the summary can't be read, and nothing else is left of them");
    return;
  }
  // What an earlier repair could only remove.
  if (has_chunk && blob.empty() && summary_good) return;
  ++result_.chunks;
  auto chunk = has_chunk ? read_chunk(stretch, block, blob) : std::nullopt;
  if (!chunk) {
    const char* problem = has_chunk ? ": the chunk is damaged" : ": the chunk is missing";
    chunk = repair_ ? rebuilt(stretch, block) : std::nullopt;
    if (chunk) {
      write_chunk(connection_, place, *chunk);
      fault(what + problem, "made anew from the reports");
    } else {
      if (repair_) give_up(stretch, block, summary_good);
      fault(what + problem, !repair_ ? "" : summary_good ? "removed: its summary stands for it" : "removed: nothing is left");
      return;
    }
  }
  result_.records += chunk->records;
  check_scores(stretch, *chunk, what);
  std::vector<std::uint64_t> numels;
  for (std::size_t i = 0; i < static_cast<std::uint8_t>(chunk->summaries.empty() ? 0 : chunk->summaries.front()); ++i) {
    const std::size_t id = std::size_t{block} * kChunkTensors + i;
    numels.push_back(id < table_.size() ? table_[id].numel : 0);
  }
  if (summary_good && records == chunk->records &&
      repacked(summaries, place.reports, numels) == repacked(chunk->summaries, place.reports, numels)) {
    return;
  }
  if (repair_) write_summary(connection_, place, *chunk);
  fault(what + (has_summary ? ": the summary does not tell what the chunk holds" : ": the summary is missing"),
        repair_ ? "made anew from the chunk" : "");
}

void Verifier::check_scores(const Stretch& stretch, const ChunkRow& chunk, const std::string& what) {
  const std::size_t groups = groups_of(read_attempts(stretch.attempts, stretch.place.reports)).size();
  bool same = true;
  for (std::size_t i = 0; i < chunk.scores.size(); ++i) {
    Query row(connection_, "SELECT frames FROM scores WHERE id = ?",
              scores_key(stretch.place.stream, stretch.place.number,
                         chunk.block * kChunkTensors + static_cast<std::uint32_t>(i) * kScoreTensors));
    same = same && (!row.step() || same_scores(row.view(0), chunk.scores[i], groups));
  }
  if (same) return;
  if (repair_) write_scores(connection_, stretch.place, chunk);
  fault(what + ": the scores do not tell what the chunk holds", repair_ ? "made anew from the chunk" : "");
}

void Verifier::check_tables() {
  std::int64_t stream = -1;
  std::int64_t version = -1;
  std::size_t tensors = 0;  // of the stream so far
  v1::TableDelta delta;
  for (bool more = true; more;) {
    more = false;
    Query rows(connection_,
               "SELECT stream, version, delta FROM table_deltas WHERE (stream, version) > (?, ?) ORDER BY stream, version "
               "LIMIT 64",
               stream, version);
    while (rows.step()) {
      more = true;
      if (rows.i64(0) != stream) tensors = 0;
      stream = rows.i64(0);
      version = rows.i64(1);
      if (!parse_sealed(rows, 2, delta) || delta.first_id() > tensors) {
        // Of those that build on it nothing is to be said.
        if (broken_tables_.insert(stream).second) {
          fault("the table of stream " + std::to_string(stream) + ", version " + std::to_string(version) + ": can't be read");
        }
        continue;
      }
      tensors = std::max(tensors, std::size_t{delta.first_id()} + static_cast<std::size_t>(delta.infos_size()));
    }
  }
}

template <class Message>
void Verifier::check_messages(const char* sql, const std::string& what, bool has_seals) {
  std::int64_t after = -1;
  Message message;
  for (bool more = true; more;) {
    more = false;
    Query rows(connection_, sql, after);
    while (rows.step()) {
      after = rows.i64(0);
      more = true;
      const auto bytes = has_seals ? unsealed(rows, 2) : rows.view(2);
      if (!bytes || !message.ParseFromArray(bytes->data(), static_cast<int>(bytes->size()))) {
        fault(what + rows.bytes(1) + ": what is stored of it can't be read");
      }
      if (const std::string name = rows.bytes(1); !names::is_utf8(name))
        fault(what + names::escape(name) + ": its name is damaged");
    }
    if (!progress_(1)) throw engine::StoreError("interrupted", true);
  }
}

void Verifier::check_rows(const char* table, const char* sql, int key, const std::string& what) {
  // A file that no server of this version has opened yet has no checksums.
  Query known(connection_, "SELECT count(*) FROM pragma_table_info(?) WHERE name = 'crc'", std::string_view(table));
  if (!known.step() || known.i64(0) == 0) return;
  std::vector<std::int64_t> after(static_cast<std::size_t>(key), std::numeric_limits<std::int64_t>::min());
  for (bool more = true; more;) {
    more = false;
    Query rows(connection_, sql);
    for (const std::int64_t value : after) rows.bind(value);
    while (rows.step()) {
      more = true;
      std::string which;
      for (int i = 0; i < key; ++i) after[static_cast<std::size_t>(i)] = rows.i64(i);
      if (row_is_whole(rows, key)) continue;
      for (const std::int64_t value : after) which += " " + std::to_string(value);
      fault(what + which + ": the row is not as it was stored");
    }
    if (!progress_(1)) throw engine::StoreError("interrupted", true);
  }
}

void Verifier::check_reports() {
  result_.reports = static_cast<std::uint64_t>(connection_.scalar("SELECT count(*) FROM reports"));
  check_messages<v1::Report>("SELECT id, id, payload FROM payloads WHERE id > ? ORDER BY id LIMIT 64", "report ");
  check_rows("reports", "SELECT id, " SCALEWATCH_REPORT_CHECKED " FROM reports WHERE id > ? ORDER BY id LIMIT 1024", 1,
             "report");
  check_rows("scaler_rows",
             "SELECT run, segment, scaler, attempt, rank, " SCALEWATCH_SCALER_CHECKED
             " FROM scaler_rows WHERE (run, segment, scaler, attempt, rank) > (?, ?, ?, ?, ?) "
             "ORDER BY run, segment, scaler, attempt, rank LIMIT 1024",
             5, "scaler observation (run, segment, scaler, attempt, rank)");
  Query lost(
      connection_,
      "SELECT streams.id, count(*) FROM streams JOIN reports INDEXED BY reports_by_seq ON reports.stream = streams.id AND "
      "reports.seq > coalesce((SELECT last_seq FROM stretches WHERE id >= streams.id << 20 AND id < (streams.id + 1) << 20 "
      "ORDER BY id DESC LIMIT 1), 0) WHERE NOT retrospective AND reports.id NOT IN (SELECT id FROM payloads) "
      "GROUP BY streams.id");
  while (lost.step()) {
    fault("stream " + std::to_string(lost.i64(0)) + ": of " + std::to_string(lost.i64(1)) +
          " reports neither what was received nor a chunk is there");
  }
}

}  // namespace scalewatch::history
