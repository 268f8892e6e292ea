// What the parts of the benchmark share: what is asked of it, and clocks.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "server/history/clickhouse/connection.h"
#include "server/history/clickhouse/options.h"
#include "tests/bench/support/output.h"

namespace scalewatch::bench {

using Clock = std::chrono::steady_clock;

struct Arguments {
  bool json = false;
  bool measured = false;  // clients measure small tensors, in place of sending what demos sent
  std::string only;       // inserts or questions; empty: both
  std::uint32_t seconds = 10;
  std::uint32_t streams = 8;
  std::uint32_t tensors = 1000;
  std::uint32_t attempts = 2000;
  std::uint32_t wide = 1000;
  std::uint32_t lengthy = 100'000;
};

inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Records a second through scalewatchd into ClickHouse, beside ClickHouse's own inserts of the same rows.
void inserts(const Arguments& arguments, const clickhouse::Options& options, Output& out);
// Questions about histories of which only ClickHouse has the rows.
void questions(const Arguments& arguments, const clickhouse::Options& options, Output& out);
// Records a second that ClickHouse takes with nothing beside: of `records` alone, or with every row that scalewatchd sends for
// them. After inserts() has filled the tables.
enum class Direct : std::uint8_t { kRecords, kAllRows };
double direct(const Arguments& arguments, const clickhouse::Options& options, Direct what, Output& out);
// The one number that a query answers, a UInt64.
std::uint64_t number(clickhouse::Connection& connection, const std::string& sql);
// CPU time of the ClickHouse server so far, seconds.
double cpu_of_server();
// How many bytes a table has on disk, once all is merged.
double merged_bytes(const clickhouse::Options& options, const std::string& table);

}  // namespace scalewatch::bench
