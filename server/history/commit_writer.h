// Writes the rows of one commit, inside a transaction that its caller opened. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "server/engine/ports/history_store.h"
#include "server/history/sqlite.h"

namespace scalewatch::history {

class CommitWriter {
 public:
  explicit CommitWriter(Connection& connection) : connection_(connection) {}

  // Throws StoreError; then the transaction must be rolled back and forget() be called.
  void write(const engine::CommitBatch& batch);
  // Drops the caches of integer ids: what they hold may have been rolled back.
  void forget();
  // Reports that the newest write() stored, by streams.id; retrospective ones aside.
  [[nodiscard]] const std::map<std::int64_t, std::size_t>& stored() const { return stored_; }

 private:
  using StreamKey = std::tuple<std::int64_t, std::uint32_t, engine::Incarnation>;

  // The id after the newest one that was given out. SQLite would give ids of removed rows out again, and whoever remembers
  // those (compaction, what waits to be released) would take the new rows for them.
  std::int64_t next_id(std::int64_t& newest, const char* select_newest);
  std::int64_t run_id(const std::string& uid);
  std::int64_t stream_id(std::int64_t run, std::uint32_t rank, const engine::Incarnation& incarnation);
  void put(const engine::RunRow& row);
  void put(const engine::IncarnationRow& row);
  void put(const engine::TableRow& row);
  void put(const engine::ReportRow& row);
  void put(const engine::InputRow& row);
  void put(const engine::SnapshotRow& row);
  void put(const engine::AlertRow& row);
  void put(const engine::OutboxRow& row);
  void put(const engine::OutboxUpdate& update);
  void put(const engine::SilenceRow& row);
  // Forgets dead letters beyond their time and number, when the batch makes some.
  void bound_dead_letters(const engine::CommitBatch& batch);

  Connection& connection_;
  std::int64_t newest_run_ = -1;  // ids, which are not given out again; -1 = not looked at yet
  std::int64_t newest_stream_ = -1;
  std::int64_t newest_report_ = -1;
  std::unordered_map<std::string, std::int64_t> runs_;
  std::map<StreamKey, std::int64_t> streams_;
  std::map<std::int64_t, std::size_t> stored_;
};

}  // namespace scalewatch::history
