// Rows as they are read back from the history file, for the readers of this room.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/engine/ports/alert_reader.h"
#include "server/engine/ports/history_store.h"
#include "server/history/sqlite.h"

namespace scalewatch::history {

// A run with its id in the file.
struct StoredRun {
  std::int64_t id = 0;
  engine::RunRow row;
};

// SELECT of a run's columns, as read_run takes them, with what follows FROM runs.
std::string select_runs(std::string_view clauses);
void read_run(const Query& query, StoredRun& run);
// By run_uid, else by name.
std::optional<StoredRun> find_stored_run(Connection& connection, const std::string& name_or_uid);

Blob bytes_of(const engine::Incarnation& incarnation);
// What is missing in bytes of another length is zero.
engine::Incarnation incarnation_from(const std::string& bytes);

// SELECT of an alert's columns, as read_alert takes them, with what follows FROM alerts.
std::string select_alerts(std::string_view clauses);
engine::AlertRow read_alert(const Query& query);
// As engine::AlertReader::list, at the moment that the connection's transaction sees.
std::vector<engine::AlertRow> list_alerts(Connection& connection, const engine::AlertReader::Filter& filter,
                                          const std::optional<engine::AlertReader::Cursor>& after, std::size_t limit);

// What is stored beside an outbox row to know its alert again: the CRC-32 of its key, its sink and its alert.
std::int64_t outbox_crc(const engine::OutboxRow& row);

}  // namespace scalewatch::history
