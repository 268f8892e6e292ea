// Records a second through scalewatchd into ClickHouse, beside ClickHouse's own inserts of the same rows.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "server/history/clickhouse/connection.h"
#include "server/history/clickhouse/native.h"
#include "tests/bench/clickhouse/parts.h"
#include "tests/bench/support/capture.h"
#include "tests/bench/support/load.h"
#include "tests/bench/support/server_process.h"

namespace scalewatch::bench {

double cpu_of_server() {
  const char* const pid = std::getenv("SCALEWATCH_CLICKHOUSE_PID");
  std::ifstream in(std::string("/proc/") + (pid == nullptr ? "0" : pid) + "/stat");
  std::string text;
  std::getline(in, text);
  const auto name_end = text.rfind(')');
  if (name_end == std::string::npos) return 0;
  unsigned long user = 0;
  unsigned long system = 0;
  std::sscanf(text.c_str() + name_end + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system);
  return static_cast<double>(user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

std::uint64_t number(clickhouse::Connection& connection, const std::string& sql) {
  const std::string answer = connection.query(sql + " FORMAT RowBinary");
  return clickhouse::RowReader(answer).u64();
}

namespace {

double own_cpu() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// How many are in `records`. count() would read a column of all of them, ten times a second.
std::uint64_t rows_there(clickhouse::Connection& connection, const std::string& database) {
  return number(connection,
                "SELECT sum(rows) FROM system.parts WHERE active AND table = 'records' AND database = '" + database + "'");
}

double through(const Arguments& arguments, const clickhouse::Options& options, Output& out) {
  constexpr std::size_t kDemos = 4;
  constexpr std::size_t kAttempts = 1100;  // of each
  std::vector<CapturedRun> captured;
  if (!arguments.measured)
    captured = capture_demo(std::filesystem::canonical("/proc/self/exe").parent_path() / "bench-demo", kDemos, kAttempts);
  const std::string config = "collection:\n  stats_leader: false\nhistory:\n  clickhouse:\n    hosts: " + options.hosts +
                             "\n    database: " + options.database + "\n";
  ServerProcess server(config);
  clickhouse::Connection connection(options);
  LoadOptions load_options;
  load_options.server = server.address();
  load_options.streams = arguments.streams;
  load_options.tensors = arguments.tensors;
  if (!arguments.measured) load_options.replay = &captured;
  const double own_before = own_cpu();
  const double cpu_before = cpu_of_server();
  const auto begin = Clock::now();
  Load load(load_options);
  std::this_thread::sleep_for(std::chrono::seconds(arguments.seconds));
  const std::uint64_t during = rows_there(connection, options.database);
  const double loaded = seconds_since(begin);
  const auto totals = load.finish();
  const double own = own_cpu() - own_before;
  const double expected = static_cast<double>(totals.durable - totals.thinned) * arguments.tensors;
  std::uint64_t there = 0;
  for (std::uint64_t before = 1; there < static_cast<std::uint64_t>(expected) && before != there;) {
    before = there;
    for (int i = 0; i < 600 && there == before; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      there = rows_there(connection, options.database);
    }
  }
  const double all = seconds_since(begin);
  const double cpu = cpu_of_server() - cpu_before;
  if (number(connection, "SELECT count() FROM records") != there) throw std::runtime_error("rows are missing");
  out.put("through scalewatchd, durable on its disk", static_cast<double>(totals.durable) * arguments.tensors / loaded,
          "records/s", 0);
  out.put("  in ClickHouse when the load ended", static_cast<double>(during) / loaded, "records/s", 0);
  out.put("  until all was there", static_cast<double>(there) / all, "records/s (goal 1000000)", 0);
  out.put("  records", static_cast<double>(there), "", 0);
  out.put("  reports thinned", static_cast<double>(totals.thinned), "", 0);
  out.put("  scalewatchd's CPU a record", server.cpu_seconds() / static_cast<double>(there) * 1e9, "ns", 0);
  out.put("  the clients' CPU a record", own / static_cast<double>(there) * 1e9, "ns", 0);
  out.put("  ClickHouse's CPU a record", cpu / static_cast<double>(there) * 1e9, "ns", 0);
  out.put("  scalewatchd's peak memory", static_cast<double>(server.peak_memory()) / 1e6, "MB", 0);
  server.stop();
  return static_cast<double>(there) / all;
}

}  // namespace

double merged_bytes(const clickhouse::Options& options, const std::string& table) {
  clickhouse::Connection connection(options);
  connection.query("OPTIMIZE TABLE " + table + " FINAL", std::chrono::minutes(10));
  return static_cast<double>(number(connection, "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = '" +
                                                    options.database + "' AND table = '" + table + "'"));
}

void inserts(const Arguments& arguments, const clickhouse::Options& options, Output& out) {
  const double shared = through(arguments, options, out);
  const double all = direct(arguments, options, Direct::kAllRows, out);
  const double alone = direct(arguments, options, Direct::kRecords, out);
  out.put("share of direct inserts of the same rows", shared / all, "(goal 0.5)", 2);
  out.put("share of direct inserts of records alone", shared / alone, "(goal 0.5)", 2);
  clickhouse::Connection connection(options);
  const auto records = static_cast<double>(number(connection, "SELECT count() FROM records"));
  const auto reports = static_cast<double>(number(connection, "SELECT count() FROM reports"));
  for (const char* table : {"records", "scores", "payloads"}) {
    out.put(std::string("bytes a record in ") + table + ", merged", merged_bytes(options, table) / records, "", 2);
  }
  for (const char* table : {"reports", "scalers"}) {
    out.put(std::string("bytes a report in ") + table + ", merged", merged_bytes(options, table) / reports, "", 1);
  }
}

}  // namespace scalewatch::bench
