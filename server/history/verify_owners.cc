// Rows whose run, client start or report is not there, as a repair leaves them of a file that lost pages. The next run, start
// or report would get their number, and what they hold would be its own.
#include <fmt/format.h>

#include <random>

#include "scalewatch/v1/alerts.pb.h"
#include "scalewatch/v1/history.pb.h"
#include "scalewatch/v1/ingest.pb.h"
#include "server/history/rows.h"
#include "server/history/seal.h"
#include "server/history/verifier.h"
#include "server/names/escape.h"

namespace scalewatch::history {

namespace {

struct Owned {
  const char* table;
  const char* owner;  // in words
  const char* is_there;
};

constexpr const char* kOfRun = "run IN (SELECT id FROM runs)";
constexpr const char* kOfStream = "stream IN (SELECT id FROM streams)";
constexpr const char* kOfStreamInKey = "id >> 40 IN (SELECT id FROM streams)";
constexpr const char* kOfReport = "id IN (SELECT id FROM reports)";

// Owners before what they own.
constexpr Owned kOwned[] = {
    {"streams", "runs", kOfRun},
    {"reports", "runs or client starts", "run IN (SELECT id FROM runs) AND stream IN (SELECT id FROM streams)"},
    {"payloads", "reports", kOfReport},
    {"kept_payloads", "reports", kOfReport},
    {"table_deltas", "client starts", kOfStream},
    {"stretches", "client starts", kOfStream},
    {"chunks", "client starts", kOfStreamInKey},
    {"summaries", "client starts", kOfStreamInKey},
    {"scores", "client starts", kOfStreamInKey},
    {"feed_streams", "client starts", kOfStream},
    {"scaler_rows", "runs", kOfRun},
    {"scaler_sums", "runs", kOfRun},
    {"inputs", "runs", kOfRun},
    {"snapshots", "runs", kOfRun},
    {"removals", "runs", kOfRun},
};

}  // namespace

void Verifier::check_owners() {
  recover_runs();
  for (const Owned& owned : kOwned) {
    // A file that no server of this version has opened yet may lack some.
    Query known(connection_, "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?", std::string_view(owned.table));
    if (!known.step()) continue;
    const std::string rest = fmt::format(" FROM {} WHERE NOT ({})", owned.table, owned.is_there);
    const std::int64_t rows = connection_.scalar(("SELECT count(*)" + rest).c_str());
    if (rows == 0) continue;
    if (repair_) connection_.execute(("DELETE" + rest).c_str());
    fault(fmt::format("{}: {} rows are of {} that are not there", owned.table, rows, owned.owner), repair_ ? "removed" : "");
  }
}

// A run whose own row is lost, from what its client starts said. What the row alone told comes back as the run goes on.
void Verifier::recover_runs() {
  std::vector<std::int64_t> lost;
  {
    Query rows(connection_, "SELECT DISTINCT run FROM streams WHERE run NOT IN (SELECT id FROM runs) ORDER BY run");
    while (rows.step()) lost.push_back(rows.i64(0));
  }
  for (const std::int64_t run : lost) {
    v1::RunSummary found;
    bool left = true;
    {
      v1::Hello hello;
      Query starts(connection_, "SELECT hello, segment, has_left FROM streams WHERE run = ? ORDER BY segment DESC, ord DESC",
                   run);
      while (starts.step()) {
        if (found.name().empty() && parse_sealed(starts, 0, hello)) found.set_name(hello.run());
        if (found.segment() == 0) found.set_segment(starts.u32(1));
        if (starts.u32(1) == found.segment()) left = left && starts.i64(2) != 0;
      }
    }
    if (found.name().empty() || !names::is_utf8(found.name())) continue;
    const std::string said = found.name();
    if (repair_) {
      // Another one may have been begun under its name.
      if (find_stored_run(connection_, found.name())) found.set_name(fmt::format("{} (recovered {})", found.name(), run));
      found.set_run_uid(uid_of_lost(said));
      found.set_status(left ? v1::RUN_STATUS_FINISHED : v1::RUN_STATUS_LOST);
      {
        Query times(connection_, "SELECT min(time_ms), max(time_ms) FROM reports WHERE run = ?", run);
        times.step();
        found.set_created_ms(times.i64(0));
        found.set_last_report_ms(times.i64(1));
      }
      v1::GetRunResponse overview;
      *overview.mutable_run() = found;
      Query(connection_,
            "INSERT INTO runs (id, uid, name, created_ms, last_report_ms, segment, status, worst_open, overview) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?)",
            run, found.run_uid(), found.name(), found.created_ms(), found.last_report_ms(), found.segment(),
            static_cast<int>(found.status()), Blob{sealed(overview.SerializeAsString())})
          .run();
    }
    fault("run " + names::escape(said) + ": its own row is not there", repair_ ? "made anew from what its clients said" : "");
  }
}

// Its alerts know it; else it gets another one.
std::string Verifier::uid_of_lost(const std::string& name) {
  v1::Alert alert;
  Query rows(connection_, "SELECT run_uid, alert FROM alerts WHERE run_uid NOT IN (SELECT uid FROM runs)");
  while (rows.step()) {
    const std::string_view bytes = rows.view(1);
    if (alert.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) && alert.run() == name) return rows.bytes(0);
  }
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

}  // namespace scalewatch::history
