#include "server/history/schema.h"

#include <spdlog/spdlog.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "server/engine/ports/history_store.h"

namespace scalewatch::history {

namespace {

// These must come before the first table, outside of a transaction.
constexpr const char* kFileLayout = R"sql(
PRAGMA page_size = 16384;
PRAGMA auto_vacuum = INCREMENTAL;
)sql";

constexpr const char* kEveryOpen = R"sql(
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA foreign_keys = OFF;
PRAGMA temp_store = MEMORY;
PRAGMA secure_delete = OFF;
PRAGMA journal_size_limit = 67108864;
)sql";

constexpr const char* kSchema = R"sql(
BEGIN IMMEDIATE;

CREATE TABLE runs (
  id INTEGER PRIMARY KEY,
  uid TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL UNIQUE,
  created_ms INTEGER NOT NULL,       -- this and every *_ms: server's clock, Unix milliseconds
  last_report_ms INTEGER NOT NULL,   -- 0 = none
  segment INTEGER NOT NULL,          -- newest
  status INTEGER NOT NULL,           -- RunStatus
  worst_open INTEGER NOT NULL,       -- Severity
  overview BLOB NOT NULL             -- GetRunResponse without findings
);
-- Name and status let filters skip rows without reading them.
CREATE INDEX runs_by_worst ON runs (worst_open DESC, last_report_ms DESC, id, name, status);

-- One client start of a rank.
CREATE TABLE streams (
  id INTEGER PRIMARY KEY,
  run INTEGER NOT NULL,              -- runs.id
  rank INTEGER NOT NULL,
  incarnation BLOB NOT NULL,         -- 16 bytes
  ord INTEGER NOT NULL,              -- a larger one is the newer incarnation of its rank
  segment INTEGER NOT NULL,
  attempt_base INTEGER NOT NULL,     -- attempt of the segment = attempt in the payload + base
  durable_seq INTEGER NOT NULL,
  has_left INTEGER NOT NULL,         -- 1 = said goodbye
  hello BLOB NOT NULL,               -- Hello
  UNIQUE (run, rank, incarnation)
);

CREATE TABLE table_deltas (
  stream INTEGER NOT NULL,           -- streams.id
  version INTEGER NOT NULL,
  first_id INTEGER NOT NULL,
  delta BLOB NOT NULL,               -- TableDelta
  PRIMARY KEY (stream, version)
);

-- What one rank sent for one attempt. What it holds is in payloads, or in the chunks of a stretch, or for a while in both.
CREATE TABLE reports (
  id INTEGER PRIMARY KEY,
  run INTEGER NOT NULL,              -- runs.id
  stream INTEGER NOT NULL,           -- streams.id
  rank INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  pos INTEGER NOT NULL,              -- place in the run's log
  segment INTEGER NOT NULL,
  attempt INTEGER NOT NULL,          -- of the segment
  step INTEGER NOT NULL,
  time_ms INTEGER NOT NULL,
  retrospective INTEGER NOT NULL,    -- 1 = detail of an old attempt
  loss,                              -- may be 'NaN'
  lr,                                -- may be 'NaN'
  grad_norm                          -- may be 'NaN'
);
CREATE UNIQUE INDEX reports_by_seq ON reports (stream, seq);
CREATE UNIQUE INDEX reports_by_pos ON reports (run, pos);
CREATE INDEX reports_by_attempt ON reports (run, segment, attempt, rank);

-- One scaler observation of one rank. A restarted rank that repeats an attempt replaces its older observation.
CREATE TABLE scaler_rows (
  run INTEGER NOT NULL,              -- runs.id
  segment INTEGER NOT NULL,
  scaler INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  rank INTEGER NOT NULL,
  step INTEGER NOT NULL,
  time_ms INTEGER NOT NULL,
  scale_before,                      -- may be 'NaN'
  scale_after,                       -- may be 'NaN'
  growth_tracker INTEGER,
  outcome INTEGER NOT NULL,          -- 0 unknown, 1 applied, 2 skipped, 3 partial
  loss,                              -- may be 'NaN'
  PRIMARY KEY (run, segment, scaler, attempt, rank)
) WITHOUT ROWID;

-- Logged inputs other than reports; with the reports they are the run's log.
CREATE TABLE inputs (
  run INTEGER NOT NULL,              -- runs.id
  pos INTEGER NOT NULL,
  payload BLOB NOT NULL,             -- the engine's own coding
  PRIMARY KEY (run, pos)
);

CREATE TABLE snapshots (
  run INTEGER PRIMARY KEY,           -- runs.id
  pos INTEGER NOT NULL,              -- folded up to here, inclusive
  state BLOB NOT NULL                -- the engine's own coding
);

CREATE TABLE alerts (
  id TEXT PRIMARY KEY,
  run_uid TEXT NOT NULL,
  rule TEXT NOT NULL,
  severity INTEGER NOT NULL,         -- Severity
  state INTEGER NOT NULL,            -- AlertState
  fired_ms INTEGER NOT NULL,
  changed_ms INTEGER NOT NULL,
  alert BLOB NOT NULL                -- Alert without deliveries
);
CREATE INDEX alerts_by_severity ON alerts (severity DESC, fired_ms DESC, id);
CREATE INDEX alerts_by_run ON alerts (run_uid, severity DESC, fired_ms DESC, id);
CREATE INDEX alerts_open ON alerts (fired_ms) WHERE state IN (2, 3);

CREATE TABLE outbox (
  id INTEGER PRIMARY KEY,
  key TEXT NOT NULL,
  sink TEXT NOT NULL,
  alert_id TEXT NOT NULL,
  transition TEXT NOT NULL,
  created_ms INTEGER NOT NULL,
  delivered INTEGER NOT NULL DEFAULT 0,
  tries INTEGER NOT NULL DEFAULT 0,
  next_try_ms INTEGER NOT NULL DEFAULT 0,
  last_error TEXT NOT NULL DEFAULT '',
  alert BLOB NOT NULL,               -- Alert as it was then
  UNIQUE (key, sink)
);
CREATE INDEX outbox_by_alert ON outbox (alert_id, id);
CREATE INDEX outbox_due ON outbox (next_try_ms, id) WHERE delivered = 0;

)sql";

// What version 2 brought: reports become tensor-major chunks.
constexpr const char* kChunks = R"sql(
CREATE TABLE payloads (
  id INTEGER PRIMARY KEY,            -- reports.id
  payload BLOB NOT NULL              -- Report as received
);
-- Reports whose payload stays although they are in a stretch: with findings, or with non-finite tensors.
CREATE TABLE kept_payloads (id INTEGER PRIMARY KEY);
CREATE INDEX reports_retrospective ON reports (run, segment, attempt) WHERE retrospective = 1;

-- Up to 128 consecutive reports of a stream that are in chunks.
CREATE TABLE stretches (
  id INTEGER PRIMARY KEY,            -- stream << 20 | number
  stream INTEGER NOT NULL,           -- streams.id
  number INTEGER NOT NULL,           -- from 0
  reports INTEGER NOT NULL,
  first_attempt INTEGER NOT NULL,
  last_attempt INTEGER NOT NULL,
  first_seq INTEGER NOT NULL,
  last_seq INTEGER NOT NULL,         -- all of the stream's reports up to here are in stretches, retrospective ones aside
  thinned INTEGER NOT NULL DEFAULT 0,  -- 1 = only summaries are left of it
  attempts BLOB NOT NULL,            -- FORMAT.md: Stretch
  detail BLOB NOT NULL               -- FORMAT.md: Stretch; empty once thinned
);
CREATE INDEX stretches_whole ON stretches (stream, last_attempt) WHERE thinned = 0;
CREATE INDEX stretches_by_stream ON stretches (stream, first_attempt, last_attempt, number, last_seq, thinned);

-- 64 tensors over a stretch.
CREATE TABLE chunks (
  id INTEGER PRIMARY KEY,            -- stream << 40 | stretch number << 20 | block
  frames BLOB NOT NULL               -- FORMAT.md: Chunk
);
-- The same in short. Kept in the order of tensors, so that one tensor's are read in one go.
CREATE TABLE summaries (
  id INTEGER PRIMARY KEY,            -- stream << 40 | block << 20 | stretch number
  first_attempt INTEGER NOT NULL,    -- of the stretch
  last_attempt INTEGER NOT NULL,
  reports INTEGER NOT NULL,          -- of the stretch
  records INTEGER NOT NULL,
  absmax_max REAL,                   -- this and the next: unscaled
  absmax_min REAL,
  non_finite INTEGER NOT NULL,       -- this and the next two: elements
  subnormal INTEGER NOT NULL,
  flushed INTEGER NOT NULL,
  min_headroom REAL,                 -- octaves
  worst_tensor TEXT NOT NULL,        -- the one with min_headroom
  tensors BLOB NOT NULL              -- FORMAT.md: Summaries
);

-- 64 attempts of a scaler taken together, over the lowest rank that reported each.
CREATE TABLE scaler_sums (
  run INTEGER NOT NULL,              -- runs.id
  segment INTEGER NOT NULL,
  scaler INTEGER NOT NULL,
  bucket INTEGER NOT NULL,           -- attempt / 64
  only_rank INTEGER,                 -- all of them are of this rank; NULL = of several
  point BLOB NOT NULL,               -- ScalerPoint
  PRIMARY KEY (run, segment, scaler, bucket)
) WITHOUT ROWID;

CREATE VIEW summary_list AS
SELECT runs.name AS run, streams.segment, streams.rank, summaries.first_attempt, summaries.last_attempt,
       ((summaries.id >> 20) & 1048575) * 64 AS first_tensor_id, records, absmax_max, absmax_min, non_finite, subnormal,
       flushed, min_headroom, worst_tensor
FROM summaries JOIN streams ON streams.id = summaries.id >> 40 JOIN runs ON runs.id = streams.run;
)sql";

constexpr const char* kViews = R"sql(
-- For people with nothing but the sqlite3 command.
CREATE VIEW run_list AS
SELECT name, uid, segment,
       CASE status WHEN 1 THEN 'running' WHEN 2 THEN 'finished' WHEN 3 THEN 'lost' ELSE 'unknown' END AS status,
       CASE worst_open WHEN 1 THEN 'info' WHEN 2 THEN 'warning' WHEN 3 THEN 'critical' ELSE 'none' END AS worst_open,
       datetime(created_ms / 1000, 'unixepoch') AS created_utc,
       CASE last_report_ms WHEN 0 THEN NULL ELSE datetime(last_report_ms / 1000, 'unixepoch') END AS last_report_utc
FROM runs ORDER BY runs.worst_open DESC, runs.last_report_ms DESC;

CREATE VIEW scaler_events AS
SELECT runs.name AS run, scaler_rows.segment, scaler, attempt, rank, step, scale_before, scale_after, growth_tracker,
       CASE outcome WHEN 1 THEN 'applied' WHEN 2 THEN 'skipped' WHEN 3 THEN 'partial' ELSE 'unknown' END AS outcome,
       loss, datetime(time_ms / 1000, 'unixepoch') AS time_utc
FROM scaler_rows JOIN runs ON runs.id = scaler_rows.run;

CREATE VIEW alert_list AS
SELECT alerts.id, runs.name AS run, rule,
       CASE severity WHEN 1 THEN 'info' WHEN 2 THEN 'warning' WHEN 3 THEN 'critical' ELSE 'none' END AS severity,
       CASE state WHEN 1 THEN 'pending' WHEN 2 THEN 'firing' WHEN 3 THEN 'acknowledged' WHEN 4 THEN 'silenced'
                  WHEN 5 THEN 'resolved' ELSE 'unknown' END AS state,
       datetime(fired_ms / 1000, 'unixepoch') AS fired_utc, datetime(changed_ms / 1000, 'unixepoch') AS changed_utc
FROM alerts LEFT JOIN runs ON runs.uid = alerts.run_uid ORDER BY alerts.severity DESC, alerts.fired_ms DESC;

)sql";

constexpr const char* kSeal = R"sql(
PRAGMA application_id = 0x53435731;
PRAGMA user_version = 3;
COMMIT;
)sql";
constexpr const char* kSealOlder = R"sql(
PRAGMA user_version = 2;
COMMIT;
)sql";

// Made at every open where it is missing, without a version of its own: a server that does not know it pages more, not less.
constexpr const char* kSilences = R"sql(
CREATE TABLE IF NOT EXISTS silences (
  id TEXT PRIMARY KEY,
  ends_ms INTEGER NOT NULL,
  silence BLOB NOT NULL              -- Silence
);
CREATE INDEX IF NOT EXISTS silences_by_end ON silences (ends_ms);
)sql";

// Made likewise: a server that does not know it counts no commits, and writes no mark.
constexpr const char* kStoreState = R"sql(
CREATE TABLE IF NOT EXISTS store_state (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  uid TEXT NOT NULL,                 -- which store this is: 32 hex digits; a copy of the file has the same
  commits INTEGER NOT NULL,          -- number of the newest commit
  committed_ms INTEGER NOT NULL,     -- when it was
  lost INTEGER NOT NULL DEFAULT 0    -- commits that were durable and missing at a later start, in all
);
)sql";

// Made likewise: how far the shared history has what is here, and what only that has. A server that does not know them sends
// nothing, and answers without what is older.
constexpr const char* kShared = R"sql(
CREATE TABLE IF NOT EXISTS feed_runs (
  run_uid TEXT PRIMARY KEY,
  pos INTEGER NOT NULL,              -- of the run's log: sent up to here, inclusive
  intent INTEGER NOT NULL,           -- and what is being sent goes up to here; a repeat sends the same again
  term INTEGER,                      -- of the claim under which it is here; 0: none; NULL: not known (added later)
  row_mark INTEGER,                  -- of the run's row and alerts as they were sent last; NULL: not known (added later)
  last_place INTEGER                 -- a start found commits missing: how far the log went then; else NULL (added later)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS feed_streams (
  stream INTEGER PRIMARY KEY,        -- streams.id
  seq INTEGER NOT NULL               -- sent, or announced lost there, up to here
);
CREATE TABLE IF NOT EXISTS shared_floors (
  run_uid TEXT NOT NULL,
  segment INTEGER NOT NULL,
  attempt INTEGER NOT NULL,          -- older attempts than this are in the shared history alone
  PRIMARY KEY (run_uid, segment)
) WITHOUT ROWID;
)sql";

// Made likewise: runs that retention has begun to remove. A server that does not know them goes on with what is left.
constexpr const char* kRemovals = R"sql(
CREATE TABLE IF NOT EXISTS removals (
  run INTEGER PRIMARY KEY            -- runs.id
);
)sql";

// Made likewise. A server that does not know scores makes none; those of chunks that it lets go are gone with them.
constexpr const char* kScores = R"sql(
CREATE TABLE IF NOT EXISTS scores (
  id INTEGER PRIMARY KEY,            -- stream << 40 | stretch number << 20 | tensor id / 16
  frames BLOB NOT NULL               -- FORMAT.md: Scores
);
CREATE TRIGGER IF NOT EXISTS scores_go AFTER DELETE ON chunks WHEN old.id & 1048575 < 262144 BEGIN
  DELETE FROM scores WHERE id BETWEEN old.id + (old.id & 1048575) * 3 AND old.id + (old.id & 1048575) * 3 + 3;
END;
)sql";

// Columns of the outbox that came later, without a version of their own: a server that does not know them sends no less.
void add_outbox_columns(Connection& connection) {
  if (connection.scalar("SELECT count(*) FROM pragma_table_info('outbox') WHERE name = 'given_up_ms'") == 0) {
    connection.execute(R"sql(
BEGIN IMMEDIATE;
ALTER TABLE outbox ADD COLUMN given_up_ms INTEGER NOT NULL DEFAULT 0;  -- > 0: a dead letter since then
ALTER TABLE outbox ADD COLUMN crc INTEGER;                             -- rows.h: outbox_crc; NULL = not known
UPDATE outbox SET given_up_ms = max(created_ms, 1) WHERE delivered = 0 AND next_try_ms = 9223372036854775807;
CREATE INDEX outbox_dead ON outbox (given_up_ms, id) WHERE given_up_ms > 0;
COMMIT;
)sql");
  }
}

void add_feed_columns(Connection& connection) {
  for (const std::string column : {"term", "row_mark", "last_place"}) {
    const std::string known = "SELECT count(*) FROM pragma_table_info('feed_runs') WHERE name = '" + column + "'";
    if (connection.scalar(known.c_str()) > 0) continue;
    connection.execute(("ALTER TABLE feed_runs ADD COLUMN " + column + " INTEGER").c_str());
  }
}

// Columns that came later, likewise: a row that a server wrote which does not know them is not checked.
void add_row_checks(Connection& connection) {
  for (const std::string table : {"reports", "scaler_rows"}) {
    if (connection.scalar(("SELECT count(*) FROM pragma_table_info('" + table + "') WHERE name = 'crc'").c_str()) > 0) continue;
    connection.execute(("ALTER TABLE " + table + " ADD COLUMN crc INTEGER").c_str());  // row_check.h; NULL = not known
  }
}

// Version 1 kept payloads in reports.
constexpr const char* kFromVersion1 = R"sql(
INSERT INTO payloads (id, payload) SELECT id, payload FROM reports;
ALTER TABLE reports DROP COLUMN payload;
)sql";

void upgrade(Connection& connection, const std::string& path, std::int64_t version) {
  const std::string copy = path + ".v" + std::to_string(version);
  std::error_code error;
  std::filesystem::remove(copy, error);
  spdlog::info("{} is of schema version {}: copied to {}, then brought to version {}", path, version, copy, kOldestUsed);
  // A copy that is whole, whatever is in the write-ahead log.
  Query(connection, "VACUUM INTO ?", copy).run();
  connection.execute("BEGIN IMMEDIATE");
  try {
    connection.execute(kChunks);
    connection.execute(kFromVersion1);
    connection.execute(kSealOlder);
  } catch (...) {
    connection.rollback();
    throw;
  }
}

}  // namespace

void prepare_schema(Connection& connection, const std::string& path) {
  // The first read of the file: garbage shows here.
  const bool empty = connection.scalar("SELECT count(*) FROM sqlite_schema") == 0;
  const std::int64_t application = connection.scalar("PRAGMA application_id");
  const std::int64_t version = connection.scalar("PRAGMA user_version");
  if (empty && application == 0) {
    connection.execute(kFileLayout);
    connection.execute(kEveryOpen);
    for (const char* part : {kSchema, kChunks, kViews, kSeal, kSilences, kStoreState, kShared, kRemovals, kScores})
      connection.execute(part);
    add_outbox_columns(connection);
    add_row_checks(connection);
    return;
  }
  if (application != kApplicationId) {
    throw engine::StoreError(path + ": a SQLite database of something else than Scalewatch; choose another data folder", false);
  }
  if (version > kSchemaVersion) {
    throw engine::StoreError(path + ": schema version " + std::to_string(version) + " is newer than this scalewatchd knows (" +
                                 std::to_string(kSchemaVersion) + "); use the newer scalewatchd that wrote it",
                             false);
  }
  connection.execute(kEveryOpen);
  if (version < kOldestUsed) upgrade(connection, path, version);
  connection.execute(kSilences);
  connection.execute(kStoreState);
  connection.execute(kShared);
  connection.execute(kRemovals);
  connection.execute(kScores);
  add_feed_columns(connection);
  add_outbox_columns(connection);
  add_row_checks(connection);
}

}  // namespace scalewatch::history
