// Records a second from clients through scalewatchd into ClickHouse, beside ClickHouse's own inserts of the same rows on the
// same machine; bytes a record there; and questions about a history of which only ClickHouse has the rows.
//   scalewatch_bench_clickhouse [--json] [--seconds N] [--streams N] [--tensors N] [--attempts N] [--long N]
// --tensors: of a stream and attempt. --attempts: of the history that is asked about, 1,000 tensors wide; --long: of the one
// with 32. bench.py starts the server and names it in SCALEWATCH_CLICKHOUSE.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "server/history/clickhouse/feeder.h"
#include "server/history/clickhouse/older.h"
#include "server/history/clickhouse/shared.h"
#include "server/history/clickhouse/tables.h"
#include "server/history/history_api.h"
#include "tests/bench/query/store.h"
#include "tests/bench/support/load.h"
#include "tests/bench/support/server_process.h"

namespace {

using namespace scalewatch;
using Clock = std::chrono::steady_clock;

struct Arguments {
  bool json = false;
  std::uint32_t seconds = 10;
  std::uint32_t streams = 8;
  std::uint32_t tensors = 1000;
  std::uint32_t attempts = 2000;
  std::uint32_t lengthy = 100'000;
};

Arguments parse(int argc, char** argv) {
  Arguments out;
  const std::map<std::string_view, std::uint32_t*> numbers{{"--seconds", &out.seconds},
                                                           {"--streams", &out.streams},
                                                           {"--tensors", &out.tensors},
                                                           {"--attempts", &out.attempts},
                                                           {"--long", &out.lengthy}};
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--json") {
      out.json = true;
    } else if (const auto found = numbers.find(flag); found != numbers.end() && i + 1 < argc) {
      *found->second = static_cast<std::uint32_t>(std::strtoul(argv[++i], nullptr, 10));
    } else {
      throw std::invalid_argument(
          "usage: scalewatch_bench_clickhouse [--json] [--seconds N] [--streams N] [--tensors N] [--attempts N] [--long N]");
    }
  }
  return out;
}

class Output {
 public:
  explicit Output(bool json) : json_(json) {}
  ~Output() {
    if (json_) std::printf("}\n");
  }
  void put(const std::string& name, double value, const char* unit, int digits = 1) {
    if (json_) {
      std::printf("%s\"%s\": %.*f", first_ ? "{" : ", ", name.c_str(), digits, value);
    } else {
      std::printf("%-52s %.*f %s\n", name.c_str(), digits, value, unit);
    }
    first_ = false;
    std::fflush(stdout);
  }

 private:
  const bool json_;
  bool first_ = true;
};

class WallClock final : public engine::Clock {
 public:
  [[nodiscard]] std::int64_t wall_ms() const override {
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  }
  [[nodiscard]] std::int64_t steady_ms() const override {
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
};

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// CPU time of the ClickHouse server so far, seconds.
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

// ---- rows a second --------------------------------------------------------------------------------------------------

double through(const Arguments& arguments, const clickhouse::Options& options, Output& out) {
  const std::string config = "collection:\n  stats_leader: false\nhistory:\n  clickhouse:\n    hosts: " + options.hosts +
                             "\n    database: " + options.database + "\n";
  bench::ServerProcess server(config);
  clickhouse::Connection connection(options);
  bench::LoadOptions load_options;
  load_options.server = server.address();
  load_options.streams = arguments.streams;
  load_options.tensors = arguments.tensors;
  const double cpu_before = cpu_of_server();
  const auto begin = Clock::now();
  bench::Load load(load_options);
  std::this_thread::sleep_for(std::chrono::seconds(arguments.seconds));
  const std::uint64_t during = number(connection, "SELECT count() FROM records");
  const double loaded = seconds_since(begin);
  const auto totals = load.finish();
  const double expected = static_cast<double>(totals.durable - totals.thinned) * arguments.tensors;
  std::uint64_t there = 0;
  for (std::uint64_t before = 1; there < static_cast<std::uint64_t>(expected) && before != there;) {
    before = there;
    for (int i = 0; i < 600 && there == before; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      there = number(connection, "SELECT count() FROM records");
    }
  }
  const double all = seconds_since(begin);
  const double cpu = cpu_of_server() - cpu_before;
  out.put("through scalewatchd, durable on its disk", static_cast<double>(totals.durable) * arguments.tensors / loaded,
          "records/s", 0);
  out.put("  in ClickHouse when the load ended", static_cast<double>(during) / loaded, "records/s", 0);
  out.put("  until all was there", static_cast<double>(there) / all, "records/s (goal 1000000)", 0);
  out.put("  records", static_cast<double>(there), "", 0);
  out.put("  reports thinned", static_cast<double>(totals.thinned), "", 0);
  out.put("  scalewatchd's CPU a record", server.cpu_seconds() / static_cast<double>(there) * 1e9, "ns", 0);
  out.put("  ClickHouse's CPU a record", cpu / static_cast<double>(there) * 1e9, "ns", 0);
  out.put("  scalewatchd's peak memory", static_cast<double>(server.peak_memory()) / 1e6, "MB", 0);
  server.stop();
  connection.query("OPTIMIZE TABLE records FINAL", std::chrono::minutes(10));
  const auto bytes = [&](const char* table) {
    return static_cast<double>(number(connection, "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = '" +
                                                      options.database + "' AND table = '" + table + "'"));
  };
  out.put("  bytes a record in records, merged", bytes("records") / static_cast<double>(there), "", 2);
  out.put("  and in payloads, for keep_log", bytes("payloads") / static_cast<double>(there), "", 2);
  return static_cast<double>(there) / all;
}

// The same rows as they are now in `records`, sent by four senders with nothing beside.
double direct(const Arguments& arguments, const clickhouse::Options& options, Output& out) {
  constexpr int kSenders = 4;
  constexpr std::uint64_t kRows = 100'000;
  clickhouse::Connection connection(options);
  const std::string rows = connection.query("SELECT * FROM records LIMIT " + std::to_string(kRows) + " FORMAT Native");
  connection.query("CREATE TABLE direct AS records");
  std::vector<std::thread> senders;
  std::atomic<std::uint64_t> done{0};
  std::atomic<bool> failed{false};
  const double cpu_before = cpu_of_server();
  const auto begin = Clock::now();
  for (int i = 0; i < kSenders; ++i) {
    senders.emplace_back([&] {
      try {
        clickhouse::Connection own(options);
        while (seconds_since(begin) < arguments.seconds) {
          own.insert_raw("direct", rows);
          done += kRows;
        }
      } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        failed = true;
      }
    });
  }
  for (auto& sender : senders) sender.join();
  if (failed) throw std::runtime_error("direct inserts failed");
  const double rate = static_cast<double>(done) / seconds_since(begin);
  out.put("direct inserts of the same rows", rate, "records/s", 0);
  out.put("  ClickHouse's CPU a record", (cpu_of_server() - cpu_before) / static_cast<double>(done) * 1e9, "ns", 0);
  connection.query("DROP TABLE direct");
  return rate;
}

// ---- questions ------------------------------------------------------------------------------------------------------

struct History {
  std::unique_ptr<bench::Folder> folder = std::make_unique<bench::Folder>();
  std::unique_ptr<history::SqliteStore> store;
};

// A store that knows names only: all rows are in ClickHouse.
History far_history(const bench::StoreShape& shape, const clickhouse::Options& options) {
  const WallClock clock;
  History made;
  bench::Folder full_folder;
  {
    const auto full = bench::open_store(full_folder.path());
    bench::fill(*full, shape);
    const std::string uid = full->find_run(shape.run)->run_uid;
    clickhouse::Feeder feeder(options, {"bench", false}, *full, clock);
    feeder.start({});
    if (!feeder.drain(uid, std::chrono::minutes(30))) throw std::runtime_error("ClickHouse took too long");
    feeder.stop(std::chrono::seconds(1));
    made.store = bench::open_store(made.folder->path());
    clickhouse::Shared shared(options, clock);
    if (!history::import_run(shared, uid, 0, *made.store)) throw std::runtime_error("the run is not there");
  }
  return made;
}

void ask(const std::string& name, int rounds, Output& out, const std::function<engine::Status()>& question) {
  std::vector<double> times;
  for (int i = 0; i < rounds; ++i) {
    const auto begin = Clock::now();
    const engine::Status status = question();
    if (!status.ok()) throw std::runtime_error(name + ": " + status.message);
    times.push_back(seconds_since(begin) * 1e3);
  }
  std::sort(times.begin(), times.end());
  out.put(name + ", p50", times[times.size() / 2], "ms");
  out.put(name + ", longest", times.back(), "ms");
}

void questions(const Arguments& arguments, const clickhouse::Options& options, Output& out) {
  constexpr int kRounds = 5;
  clickhouse::Older older(options);
  history::ApiLimits limits;
  limits.read_time = std::chrono::minutes(2);
  {
    const History far = far_history({.run = "long", .tensors = 32, .attempts = arguments.lengthy}, options);
    const auto api = history::make_history_api(*far.store, limits, &older);
    v1::ListTensorsRequest list;
    list.set_run("long");
    list.set_page_size(1);
    v1::ListTensorsResponse listed;
    if (const auto status = api->list_tensors(list, listed); !status.ok()) throw std::runtime_error(status.message);
    const std::string attempts = std::to_string(arguments.lengthy) + " attempts";
    ask("a tensor over " + attempts, kRounds, out, [&] {
      v1::GetTensorHistoryRequest request;
      request.set_run("long");
      request.set_tensor(listed.tensors(0).info().name());
      request.set_role(listed.tensors(0).info().role());
      v1::GetTensorHistoryResponse response;
      return api->get_tensor_history(request, response);
    });
    ask("a scaler over " + attempts, kRounds, out, [&] {
      v1::GetScalerHistoryRequest request;
      request.set_run("long");
      v1::GetScalerHistoryResponse response;
      return api->get_scaler_history(request, response);
    });
  }
  const History far = far_history({.run = "wide", .tensors = 1000, .attempts = arguments.attempts}, options);
  const auto api = history::make_history_api(*far.store, limits, &older);
  ask("an old attempt of 1,000 tensors", kRounds, out, [&] {
    v1::GetAttemptRequest request;
    request.set_run("wide");
    request.set_attempt(arguments.attempts / 3);
    request.set_page_size(1000);
    v1::GetAttemptResponse response;
    return api->get_attempt(request, response);
  });
  ask("top 20 of 1,000 tensors over 100 attempts", kRounds, out, [&] {
    v1::TopTensorsRequest request;
    request.set_run("wide");
    v1::TopTensorsResponse response;
    return api->top_tensors(request, response);
  });
  ask("heat map of 10 named tensors over " + std::to_string(arguments.attempts) + " attempts", kRounds, out, [&] {
    v1::GetHeatMapRequest request;
    request.set_run("wide");
    request.set_max_tensors(10);
    request.set_tensor_contains(".");
    v1::GetHeatMapResponse response;
    return api->get_heat_map(request, response);
  });
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Arguments arguments = parse(argc, argv);
    const char* const hosts = std::getenv("SCALEWATCH_CLICKHOUSE");
    if (hosts == nullptr)
      throw std::invalid_argument("SCALEWATCH_CLICKHOUSE is not set: tests/bench/run clickhouse starts a server");
    clickhouse::Options options;
    options.hosts = hosts;
    options.timeout = std::chrono::minutes(5);
    Output out(arguments.json);
    const double shared = through(arguments, options, out);
    const double alone = direct(arguments, options, out);
    out.put("share of direct inserts", shared / alone, "(goal 0.5)", 2);
    options.database = "questions";
    questions(arguments, options, out);
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "scalewatch_bench_clickhouse: %s\n", error.what());
    return 1;
  }
}
