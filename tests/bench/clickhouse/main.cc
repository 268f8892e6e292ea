// Records a second from clients through scalewatchd into ClickHouse, beside ClickHouse's own inserts of the same rows on the
// same machine; bytes a record there; and questions about a history of which only ClickHouse has the rows.
//   scalewatch_bench_clickhouse [--json] [--measured] [--only inserts|questions] [--seconds N] [--streams N] [--tensors N]
//   [--attempts N]
//                               [--wide N] [--long N]
// What clients send are the statistics of 4,400 attempts of four demos, captured before, as with tests/bench/ingest;
// --measured: they measure tensors of 64 elements themselves. --tensors: of a stream and attempt. --attempts and --wide:
// attempts and tensors of the wide history that is asked about;
// --long: attempts of the one with 32 tensors; 0: none. bench.py starts the server and names it in SCALEWATCH_CLICKHOUSE.
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string_view>

#include "tests/bench/clickhouse/parts.h"

namespace {

using scalewatch::bench::Arguments;

Arguments parse(int argc, char** argv) {
  Arguments out;
  const std::map<std::string_view, std::uint32_t*> numbers{{"--seconds", &out.seconds}, {"--streams", &out.streams},
                                                           {"--tensors", &out.tensors}, {"--attempts", &out.attempts},
                                                           {"--wide", &out.wide},       {"--long", &out.lengthy}};
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--json") {
      out.json = true;
    } else if (flag == "--measured") {
      out.measured = true;
    } else if (const auto found = numbers.find(flag); found != numbers.end() && i + 1 < argc) {
      *found->second = static_cast<std::uint32_t>(std::strtoul(argv[++i], nullptr, 10));
    } else if (flag == "--only" && i + 1 < argc) {
      out.only = argv[++i];
    } else {
      throw std::invalid_argument("unknown option " + std::string(flag) + "; see the head of tests/bench/clickhouse/main.cc");
    }
  }
  if (!out.only.empty() && out.only != "inserts" && out.only != "questions") {
    throw std::invalid_argument("--only: inserts or questions");
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace scalewatch;
  try {
    const Arguments arguments = parse(argc, argv);
    const char* const hosts = std::getenv("SCALEWATCH_CLICKHOUSE");
    if (hosts == nullptr)
      throw std::invalid_argument("SCALEWATCH_CLICKHOUSE is not set: tests/bench/run clickhouse starts a server");
    clickhouse::Options options;
    options.hosts = hosts;
    options.timeout = std::chrono::minutes(5);
    bench::Output out(arguments.json);
    if (arguments.only != "questions") bench::inserts(arguments, options, out);
    options.database = "questions";
    if (arguments.only != "inserts") bench::questions(arguments, options, out);
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "scalewatch_bench_clickhouse: %s\n", error.what());
    return 1;
  }
}
