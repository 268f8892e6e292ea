// Writes runs' rows to ClickHouse: batches of their logs, and what stands beside these. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "server/history/clickhouse/batch.h"
#include "server/history/clickhouse/connection.h"
#include "server/history/sqlite_store.h"

namespace scalewatch::clickhouse {

class Writer {
 public:
  // `instance`: this server's name, for people.
  Writer(const Options& options, history::SqliteStore& store, std::string instance)
      : store_(store),
        instance_(std::move(instance)),
        connection_(options),
        beside_{Connection(options), Connection(options)} {}

  Connection& connection() { return connection_; }
  // Makes what runs now, and what follows, fail at once. Any thread.
  void cancel();

  bool take_lost();  // Connection::take_lost
  // What was sent may be gone there: all that stands beside logs is sent again. The second: of one run.
  void forget() { known_.clear(); }
  void forget(const std::string& run_uid) { known_.erase(run_uid); }
  // What is known of other runs is read again when it is needed.
  template <class IsKept>
  void keep_only(const IsKept& is_kept) {
    std::erase_if(known_, [&](const auto& run) { return !is_kept(run.first); });
  }
  // Everything of the batch, which is finished, then its marks: what has no mark yet counts for nothing when a run is taken
  // over. A repeat changes no answer.
  void write(Batch& batch, std::int64_t now_ms);
  // The run's row, its changed alerts, and its newest snapshot, unless that is ahead of `sent_pos`: then it returns false. What
  // is written under a term goes above all that is there of it, whatever the clock says.
  bool write_run(const std::string& run_uid, std::uint64_t term, std::int64_t now_ms, std::uint64_t sent_pos,
                 bool with_snapshot);

 private:
  void write_rows(Batch& batch);
  void write_streams(const std::string& run_uid, std::uint64_t version);
  void write_row(const engine::RunRow& row, std::uint64_t version);
  void write_alerts(const std::string& run_uid);

  history::SqliteStore& store_;
  const std::string instance_;
  Connection connection_;
  std::array<Connection, 2> beside_;  // for what is sent at the same time
  struct Known {
    std::map<std::pair<std::uint32_t, engine::Incarnation>, std::uint32_t> deltas;  // sent, of each stream
    std::map<std::string, std::int64_t> alerts;                                     // change that was sent, by id
    std::optional<std::map<std::string, std::int64_t>> alert_versions;              // newest there, by id; read when needed
    std::optional<std::uint64_t> version;  // newest of rows there up to this term; read when needed
    std::uint64_t snapshot_pos = 0;
    bool streams_sent = false;
    std::uint64_t term = 0;
    bool row_sent = false;
  };
  std::map<std::string, Known> known_;  // by run_uid
  // What was sent of the run under this term: another owner may have written since the one before.
  Known& known(const std::string& run_uid, std::uint64_t term);
  // Of the run's next rows.
  std::uint64_t next_version(const std::string& run_uid, std::uint64_t term, std::int64_t now_ms);
};

}  // namespace scalewatch::clickhouse
