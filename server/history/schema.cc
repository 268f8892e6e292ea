#include "server/history/schema.h"

#include <string>

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

-- What one rank sent for one attempt. The payload comes last, so that the columns before it are read without it.
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
  grad_norm,                         -- may be 'NaN'
  payload BLOB NOT NULL              -- Report as received
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

PRAGMA application_id = 0x53435731;
PRAGMA user_version = 1;
COMMIT;
)sql";

}  // namespace

void prepare_schema(Connection& connection, const std::string& path) {
  // The first read of the file: garbage shows here.
  const bool empty = connection.scalar("SELECT count(*) FROM sqlite_schema") == 0;
  const std::int64_t application = connection.scalar("PRAGMA application_id");
  const std::int64_t version = connection.scalar("PRAGMA user_version");
  if (empty && application == 0) {
    connection.execute(kFileLayout);
    connection.execute(kEveryOpen);
    connection.execute(kSchema);
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
}

}  // namespace scalewatch::history
