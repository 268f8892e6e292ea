// The tables that a server makes and versions in ClickHouse. CLICKHOUSE.md describes them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "server/history/clickhouse/connection.h"
#include "server/history/clickhouse/options.h"

namespace scalewatch::clickhouse {

inline constexpr std::uint32_t kSchemaVersion = 4;

struct Table {
  std::string name;
  std::string columns;    // "name Type, name Type, ..."
  std::string order;      // of rows, and what makes two rows the same one
  std::string version;    // column whose largest value stays of the same rows; empty: any of them, for they are equal
  std::string partition;  // empty: none
  std::string shard;      // what a sharded layout spreads rows by
  int granule = 0;        // rows that are read at least; 0: ClickHouse's own 8192. For new tables
};
const std::vector<Table>& tables();
// "name Type, ..." of a table, for a Block.
const std::string& columns_of(std::string_view table);

// What a server of this version can do.
struct Abilities {
  std::string version;
  bool codecs = false;           // of columns
  bool low_cardinality = false;  // without a setting
};
Abilities abilities(Connection& connection, std::size_t host);

// Brings the tables of version `to` - 1 to `to`; tables that are new are made before.
struct NewColumn {
  std::string table;
  std::string column;      // "name Type", and what older rows have of it
  std::string order = {};  // the table's, when it becomes another one with it
};
struct Migration {
  std::uint32_t to = 0;
  std::vector<NewColumn> columns;
};
const std::vector<Migration>& migrations();

// Makes what is missing on every host that answers, and brings older tables up to date; the connection asks none of the others
// until they have their tables. Throws StoreError, where none answers; one that is not retryable when a
// newer scalewatchd has made the tables. Any number of servers may do it at once.
void prepare_tables(Connection& connection, const Options& options, const std::vector<Migration>& steps = migrations(),
                    std::uint32_t version = kSchemaVersion);

// The same where it is not `prepared`, or where the database, or a table, turned out to be gone since: `lost`
// (Connection::take_lost), and where a host came back without tables. True: it did something.
bool keep_prepared(Connection& connection, const Options& options, bool lost, bool& prepared);

// Removes days of reports as received that nothing was written of for `keep_log`, by ClickHouse's clock, which is one for all
// servers, and no sooner by this server's: a clock that is ahead must not take what others need. A host that is away keeps its
// own.
void drop_payloads(Connection& connection, const Options& options, std::int64_t now_ms);

}  // namespace scalewatch::clickhouse
