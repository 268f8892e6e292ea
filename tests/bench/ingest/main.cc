// Records a second from clients to durable on disk: real scalewatchd, real store, real client library, all on this machine.
// Then waits until compaction has caught up, for what a record takes on disk.
//   scalewatch_bench_ingest [--json] [--seconds N] [--streams N] [--tensors N] [--no-compaction]
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <thread>

#include "tests/bench/support/load.h"
#include "tests/bench/support/server_process.h"

namespace {

using namespace std::chrono_literals;

struct Arguments {
  bool json = false;
  bool compaction = true;
  std::uint32_t seconds = 10;
  scalewatch::bench::LoadOptions load;
};

Arguments parse(int argc, char** argv) {
  Arguments out;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    const auto number = [&] {
      const unsigned long value = i + 1 < argc ? std::strtoul(argv[++i], nullptr, 10) : 0;
      if (value == 0 || value > 1'000'000) throw std::invalid_argument(std::string(flag) + " needs a number from 1 to 1000000");
      return static_cast<std::uint32_t>(value);
    };
    if (flag == "--json") {
      out.json = true;
    } else if (flag == "--no-compaction") {
      out.compaction = false;
    } else if (flag == "--seconds") {
      out.seconds = number();
    } else if (flag == "--streams") {
      out.load.streams = number();
    } else if (flag == "--tensors") {
      out.load.tensors = number();
    } else {
      throw std::invalid_argument(
          "usage: scalewatch_bench_ingest [--json] [--seconds N] [--streams N] [--tensors N] [--no-compaction]");
    }
  }
  return out;
}

constexpr std::chrono::seconds kQuiet{8};

// Until the server has used next to no processor time for a while: what is to be compacted is.
void wait_until_quiet(const scalewatch::bench::ServerProcess& server) {
  double before = server.cpu_seconds();
  for (;;) {
    std::this_thread::sleep_for(kQuiet);
    const double now = server.cpu_seconds();
    if (now - before < 0.1) return;
    before = now;
  }
}

double own_cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Arguments arguments = parse(argc, argv);
    // Its streams are ranks of one run: each is to send everything.
    scalewatch::bench::ServerProcess server(
        std::string("collection:\n  stats_leader: false\nhistory:\n  idle_after: 2s\n  compaction: ") +
        (arguments.compaction ? "true\n" : "false\n"));
    arguments.load.server = server.address();
    scalewatch::bench::Load load(arguments.load);
    while (load.durable_reports() < 2U * arguments.load.streams) std::this_thread::sleep_for(10ms);
    std::this_thread::sleep_for(1s);  // connections and caches are warm

    const auto begin = std::chrono::steady_clock::now();
    const std::uint64_t before = load.durable_reports();
    const double server_before = server.cpu_seconds();
    const double compaction_before = server.cpu_seconds("compactor");
    const double client_before = own_cpu_seconds();
    std::this_thread::sleep_for(std::chrono::seconds(arguments.seconds));
    const std::uint64_t reports = load.durable_reports() - before;
    const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    const double server_cpu = server.cpu_seconds() - server_before;
    const double compaction_cpu = server.cpu_seconds("compactor") - compaction_before;
    const double client_cpu = own_cpu_seconds() - client_before;

    const auto totals = load.finish();
    const std::uint64_t bytes_before = server.history_bytes();
    const auto finished = std::chrono::steady_clock::now();
    const double compaction_at_end = server.cpu_seconds("compactor");
    wait_until_quiet(server);
    const double catch_up = std::chrono::duration<double>(std::chrono::steady_clock::now() - finished - kQuiet).count();
    const double compaction_all = server.cpu_seconds("compactor");
    server.stop();
    const double records = static_cast<double>(reports) * arguments.load.tensors;
    const double per_second = records / elapsed;
    const double bytes =
        static_cast<double>(server.history_bytes()) / (static_cast<double>(totals.durable) * arguments.load.tensors);
    const double all_records = static_cast<double>(totals.durable) * arguments.load.tensors;
    const double rows_bytes = static_cast<double>(bytes_before) / all_records;
    const double compaction_ns = compaction_all / all_records * 1e9;
    const double after_load = compaction_all > 0 ? 1 - compaction_at_end / compaction_all : 0;
    if (arguments.json) {
      std::printf(
          "{\"bytes_per_record_when_the_load_ended\": %.2f, \"compaction_cpu_ns_per_record\": %.1f, "
          "\"compaction_done_after_the_load\": %.2f, \"catch_up_s\": %.1f, ",
          rows_bytes, compaction_ns, after_load, catch_up);
      std::printf(
          "\"records_per_s\": %.0f, \"bytes_per_record\": %.2f, \"seconds\": %.3f, \"streams\": %u, \"tensors\": %u, "
          "\"reports_durable\": %llu, \"reports_thinned\": %llu, \"reports_dropped\": %llu, \"server_cpu_ns_per_record\": "
          "%.1f, "
          "\"client_cpu_ns_per_record\": %.1f}\n",
          per_second, bytes, elapsed, arguments.load.streams, arguments.load.tensors,
          static_cast<unsigned long long>(totals.durable), static_cast<unsigned long long>(totals.thinned),
          static_cast<unsigned long long>(totals.dropped), server_cpu / records * 1e9, client_cpu / records * 1e9);
    } else {
      std::printf("%u streams of %u tensors, %.1f s\n", arguments.load.streams, arguments.load.tensors, elapsed);
      std::printf("records_per_s     %.0f durable\nbytes_per_record  %.2f on disk, %.2f when the load ended\n", per_second,
                  bytes, rows_bytes);
      std::printf("compaction        %.0f ns of CPU a record; %.0f%% of it after the load, which took %.0f s\n", compaction_ns,
                  after_load * 100, catch_up);
      std::printf("CPU meanwhile     compaction %.0f ns a record of the load\n", compaction_cpu / records * 1e9);
      std::printf("CPU a record      server %.0f ns, client with its measuring %.0f ns\n", server_cpu / records * 1e9,
                  client_cpu / records * 1e9);
      std::printf("reports           %llu durable, %llu thinned, %llu dropped\n",
                  static_cast<unsigned long long>(totals.durable), static_cast<unsigned long long>(totals.thinned),
                  static_cast<unsigned long long>(totals.dropped));
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "scalewatch_bench_ingest: %s\n", error.what());
    return 1;
  }
}
