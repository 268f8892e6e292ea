#include "server/history/clickhouse/tables.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <ctime>
#include <functional>
#include <map>
#include <stdexcept>

#include "server/engine/ports/history_store.h"
#include "server/history/clickhouse/native.h"
#include "server/history/clickhouse/score_rows.h"

namespace scalewatch::clickhouse {

namespace {

// Runs are numbers: run_uid is 16 hexadecimal digits. Streams are the first 8 bytes of an incarnation, tensors a hash of role
// and name (keys.h). `term` is that of the owner's claim, 0 where servers claim nothing. What is asked for in few rows has
// small granules: a payload of a wide model has a quarter of a megabyte, of which 8192 would be read for one.
const std::vector<Table>& all_tables() {
  static const std::vector<Table> kTables = {
      {"schema_version", "version UInt32, made_ms Int64", "version", "", "", "version"},
      {"owners", "run UInt64, term UInt64, token UInt64, instance String, claimed_ms Int64", "run, term, token", "", "", "run"},
      {"runs",
       "run UInt64, version UInt64, run_uid String, name String, created_ms Int64, last_report_ms Int64, segment UInt32, "
       "status Int32, worst_open Int32, overview String",
       "run", "version", "", "run"},
      {"streams",
       "run UInt64, rank UInt32, stream UInt64, version UInt64, incarnation FixedString(16), ord UInt64, segment UInt32, "
       "attempt_base UInt64, has_left UInt8, hello String",
       "run, rank, stream", "version", "", "run"},
      {"table_deltas", "run UInt64, rank UInt32, stream UInt64, table_version UInt32, first_id UInt32, delta String",
       "run, rank, stream, table_version", "", "", "run"},
      {"tensors", "run UInt64, tensor UInt64, name String, role UInt8, numel UInt64", "run, tensor, name", "", "", "run"},
      {"records",
       "run UInt64, segment UInt32, tensor UInt64, attempt UInt64, rank UInt32, stream UInt64, seq UInt64, id UInt32, day "
       "Date, "
       "numel UInt64, nans UInt64, pos_inf UInt64, neg_inf UInt64, zero UInt64, subnormal UInt64, flushed UInt64, over UInt64, "
       "min Float32, max Float32, absmin_nonzero Float32, sum Float64, sum_sq Float64, measured_under_scale Float64, "
       "target UInt8, micro_batches UInt32, first_bad_micro UInt32, retrospective UInt8",
       "run, segment, tensor, attempt, rank, stream, seq, id", "", "toYYYYMM(day)", "cityHash64(run, tensor)"},
      {"reports",
       "run UInt64, segment UInt32, attempt UInt64, rank UInt32, stream UInt64, seq UInt64, term UInt64, pos UInt64, day Date, "
       "step Int64, time_ms Int64, retrospective UInt8, loss Nullable(Float64), lr Nullable(Float64), "
       "grad_norm Nullable(Float64), records UInt32, rest String, wide_scores UInt8",
       "run, segment, attempt, rank, stream, seq", "term", "toYYYYMM(day)", "run"},
      {"scores", "run UInt64, segment UInt32, stat UInt8, grp UInt64, tensor UInt64, target UInt8, day Date, score UInt64",
       "run, segment, stat, grp, tensor, target", "score", "toYYYYMM(day)", "cityHash64(run, tensor)", 1024},
      {"non_finite",
       "run UInt64, segment UInt32, attempt UInt64, tensor UInt64, rank UInt32, stream UInt64, seq UInt64, id UInt32, day "
       "Date, "
       "bad UInt64",
       "run, segment, attempt, tensor, rank, stream, seq, id", "", "toYYYYMM(day)", "cityHash64(run, tensor)"},
      {"scalers",
       "run UInt64, segment UInt32, scaler UInt32, attempt UInt64, rank UInt32, pos UInt64, day Date, step Int64, "
       "time_ms Int64, scale_before Nullable(Float64), scale_after Nullable(Float64), growth_tracker Nullable(Int64), "
       "outcome UInt8, loss Nullable(Float64)",
       "run, segment, scaler, attempt, rank, pos", "", "toYYYYMM(day)", "run"},
      {"inputs", "run UInt64, pos UInt64, term UInt64, payload String", "run, pos, term", "", "", "run"},
      {"payloads",
       "run UInt64, pos UInt64, term UInt64, day Date, rank UInt32, stream UInt64, seq UInt64, segment UInt32, attempt UInt64, "
       "time_ms Int64, payload String, lanes UInt8",
       "run, pos, term", "", "day", "run", 64},
      {"snapshots", "run UInt64, version UInt64, pos UInt64, needs_pos UInt64, state String", "run", "version", "", "run"},
      {"alerts",
       "run UInt64, id String, term UInt64, changed_ms Int64, run_uid String, rule String, severity Int32, state Int32, "
       "fired_ms Int64, "
       "alert String",
       "run, id, term", "changed_ms", "", "run"},
      {"batches",
       "run UInt64, term UInt64, rank UInt32, stream UInt64, first_seq UInt64, last_seq UInt64, from_pos UInt64, to_pos "
       "UInt64, "
       "records UInt64, instance String, sent_ms Int64",
       "run, term, rank, stream, first_seq, last_seq, from_pos, to_pos", "", "", "run"},
  };
  return kTables;
}

// What few values repeat in.
bool is_word(std::string_view name) {
  return name == "instance" || name == "rule";
}

std::string codec_of(std::string_view name, std::string_view type) {
  if (type.starts_with("Float") || type.starts_with("Nullable(Float")) return " CODEC(Gorilla, ZSTD(1))";
  if (name == "attempt" || name == "seq" || name == "pos" || name == "step" || name == "time_ms")
    return " CODEC(Delta, ZSTD(1))";
  return " CODEC(ZSTD(1))";
}

std::string columns_for(const Table& table, const Abilities& can) {
  std::string out;
  std::string_view rest = table.columns;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(", "), rest.size());
    const std::string_view column = rest.substr(0, end);
    const std::size_t space = column.find(' ');
    const std::string_view name = column.substr(0, space);
    const std::string_view type = column.substr(space + 1);
    out += (out.empty() ? "" : ", ") + std::string(name) + " ";
    if (can.low_cardinality && is_word(name)) {
      out += "LowCardinality(" + std::string(type) + ")";
    } else {
      out += type;
    }
    if (can.codecs) out += codec_of(name, type);
    rest.remove_prefix(std::min(end + 2, rest.size()));
  }
  return out;
}

std::string engine_for(const Table& table, const Options& options) {
  std::string arguments;
  std::string kind = "ReplacingMergeTree";
  if (options.replicated()) {
    kind = "Replicated" + kind;
    arguments = "'/clickhouse/tables/{shard}/" + options.database + "/" + table.name + "', '{replica}'";
  }
  if (!table.version.empty()) arguments += (arguments.empty() ? "" : ", ") + table.version;
  std::string out = kind + "(" + arguments + ")";
  if (!table.partition.empty()) out += " PARTITION BY " + table.partition;
  return out + " ORDER BY (" + table.order + ")";
}

std::string granule_of(const Table& table) {
  return table.granule == 0 ? "" : " SETTINGS index_granularity = " + std::to_string(table.granule);
}

// As it is on each host.
std::string local_name(const std::string& table, const Options& options) {
  return options.sharded() ? table + "_local" : table;
}

void make_tables(Connection& connection, const Options& options, std::size_t host) {
  connection.execute_at(host, "CREATE DATABASE IF NOT EXISTS " + options.database, false);
  const Abilities can = abilities(connection, host);
  for (const Table& table : all_tables()) {
    const std::string make = "CREATE TABLE IF NOT EXISTS " + local_name(table.name, options) + " (" + columns_for(table, can) +
                             ") ENGINE = " + engine_for(table, options);
    try {
      connection.execute_at(host, make + granule_of(table));
    } catch (const engine::StoreError&) {
      // Another replica may have made it before there were such.
      if (!options.replicated() || table.granule == 0) throw;
      connection.execute_at(host, make);
    }
    if (!options.sharded()) continue;
    connection.execute_at(host, "CREATE TABLE IF NOT EXISTS " + table.name + " (" + columns_for(table, {}) +
                                    ") ENGINE = Distributed(" + options.cluster + ", " + options.database + ", " + table.name +
                                    "_local, " + table.shard + ")");
  }
}

// Hosts on which `make` was done; the others are away, or refuse, and are not asked until they have their tables. Throws
// StoreError where none is left.
std::vector<std::size_t> make_on_hosts(Connection& connection, const std::function<void(std::size_t host)>& make) {
  std::vector<std::size_t> made;
  std::map<std::size_t, engine::StoreError> faults;
  for (std::size_t host = 0; host < connection.hosts(); ++host) {
    try {
      connection.check(host);
      make(host);
      made.push_back(host);
    } catch (const engine::StoreError& error) {
      if (!error.retryable) throw;
      faults.emplace(host, error);
    }
  }
  if (made.empty()) throw engine::StoreError(faults.begin()->second);
  for (const std::size_t host : made) connection.set_tables(host, true);
  for (const auto& [host, fault] : faults) {
    if (connection.has_tables(host)) {
      spdlog::warn("history.clickhouse: {}; it gets its tables, and is asked, once it answers", fault.what());
    }
    connection.set_tables(host, false);
  }
  return made;
}

std::uint32_t stored_version(Connection& connection) {
  const std::string answer = connection.query("SELECT toUInt32(max(version)) FROM schema_version FORMAT RowBinary");
  return RowReader(answer).u32();
}

// On a host that does not have it: one of a replicated table comes from the other replica.
void add_column(Connection& connection, const Options& options, std::size_t host, const NewColumn& added) {
  const std::string name = added.column.substr(0, added.column.find(' '));
  const auto add_to = [&](const std::string& table, const std::string& more) {
    const std::string known =
        connection.execute_at(host, "SELECT count() FROM system.columns WHERE database = " + quoted(options.database) +
                                        " AND table = " + quoted(table) + " AND name = " + quoted(name) + " FORMAT RowBinary");
    if (RowReader(known).u64() == 0) connection.execute_at(host, "ALTER TABLE " + table + " ADD COLUMN " + added.column + more);
  };
  add_to(local_name(added.table, options), added.order.empty() ? "" : ", MODIFY ORDER BY (" + added.order + ")");
  if (options.sharded()) add_to(added.table, "");
}

}  // namespace

const std::vector<Table>& tables() {
  return all_tables();
}

const std::string& columns_of(std::string_view table) {
  const auto& all = all_tables();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Table& one) { return one.name == table; });
  if (found == all.end()) throw std::logic_error("no table " + std::string(table));
  return found->columns;
}

Abilities abilities(Connection& connection, std::size_t host) {
  Abilities can;
  const std::string answer = connection.execute_at(host, "SELECT version() FORMAT RowBinary", false);
  can.version = RowReader(answer).text();
  int major = 0;
  int minor = 0;
  const char* const end = can.version.data() + can.version.size();
  const auto [dot, error] = std::from_chars(can.version.data(), end, major);
  if (error == std::errc() && dot != end) std::from_chars(dot + 1, end, minor);
  // Codecs came with 19.11, LowCardinality left its setting with 19.14; the year after is sure to have both.
  can.codecs = major >= 20;
  can.low_cardinality = major >= 20;
  return can;
}

const std::vector<Migration>& migrations() {
  static const std::vector<Migration> kSteps = {
      // What is there from before there were scores has none, and says so.
      {2, {{"reports", "records UInt32 DEFAULT " + std::to_string(kUnscored)}, {"alerts", "term UInt64", "run, id, term"}}},
      // Nor has it scores by hundreds.
      {3, {{"reports", "wide_scores UInt8"}}},
      // Its payloads are as received.
      {4, {{"payloads", "lanes UInt8"}}},
  };
  return kSteps;
}

void prepare_tables(Connection& connection, const Options& options, const std::vector<Migration>& steps,
                    std::uint32_t version) {
  const auto hosts = make_on_hosts(connection, [&](std::size_t host) { make_tables(connection, options, host); });
  const std::uint32_t stored = stored_version(connection);
  if (stored > version) {
    throw engine::StoreError("history.clickhouse: the tables in " + options.database + " are of schema version " +
                                 std::to_string(stored) + ", made by a newer scalewatchd; this one knows " +
                                 std::to_string(version),
                             false);
  }
  // Also of a host that was away when others came to this version.
  for (const Migration& step : steps) {
    if (stored == 0 || step.to > version) continue;
    if (step.to > stored) {
      spdlog::info("history.clickhouse: tables in {} go from schema version {} to {}", options.database, step.to - 1, step.to);
    }
    for (const NewColumn& added : step.columns) {
      for (const std::size_t host : hosts) add_column(connection, options, host, added);
    }
  }
  if (stored == version) return;
  Block block(columns_of("schema_version"));
  add_row(block, version, static_cast<std::int64_t>(std::time(nullptr)) * 1000);
  connection.insert("schema_version", block);
}

bool keep_prepared(Connection& connection, const Options& options, bool lost, bool& prepared) {
  if (lost && prepared) {
    spdlog::error(
        "history.clickhouse: the database {} or a table of it is gone, and is made anew: the shared history is not the one of "
        "before, and what was only there is lost",
        options.database);
    prepared = false;
  }
  if (connection.take_bare()) prepared = false;
  if (prepared) return false;
  prepare_tables(connection, options);
  prepared = true;
  return true;
}

void drop_payloads(Connection& connection, const Options& options, std::int64_t now_ms) {
  const std::string table = local_name("payloads", options);
  const std::int64_t keep_s = options.keep_log.count() / 1000;
  const std::string of_old_days =
      "SELECT partition FROM system.parts WHERE database = " + quoted(options.database) + " AND table = " + quoted(table) +
      " AND active GROUP BY partition HAVING toInt64(max(modification_time)) < least(toInt64(now()), toInt64(" +
      std::to_string(now_ms / 1000) + ")) - " + std::to_string(keep_s) + " FORMAT RowBinary";
  for (std::size_t host = 0; host < connection.hosts(); ++host) {
    try {
      // Each host has partitions of its own; one that is not there any more is none to drop.
      connection.check(host);
      const std::string days = connection.execute_at(host, of_old_days);
      for (RowReader rows(days); !rows.done();) {
        const std::string day(rows.text());  // quoted, or not, as versions have it
        connection.execute_at(host, "ALTER TABLE " + table + " DROP PARTITION " + (day.starts_with('\'') ? day : quoted(day)));
      }
    } catch (const engine::StoreError& error) {
      spdlog::debug("history.clickhouse: reports as received stay where they are: {}", error.what());
    }
  }
}

}  // namespace scalewatch::clickhouse
