// Records a second from clients to durable on disk: real scalewatchd, real store, real client library, all on this machine.
//   scalewatch_bench_ingest [--json] [--seconds N] [--streams N] [--tensors N]
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
    } else if (flag == "--seconds") {
      out.seconds = number();
    } else if (flag == "--streams") {
      out.load.streams = number();
    } else if (flag == "--tensors") {
      out.load.tensors = number();
    } else {
      throw std::invalid_argument("usage: scalewatch_bench_ingest [--json] [--seconds N] [--streams N] [--tensors N]");
    }
  }
  return out;
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
    scalewatch::bench::ServerProcess server("collection:\n  stats_leader: false\n");
    arguments.load.server = server.address();
    scalewatch::bench::Load load(arguments.load);
    while (load.durable_reports() < 2U * arguments.load.streams) std::this_thread::sleep_for(10ms);
    std::this_thread::sleep_for(1s);  // connections and caches are warm

    const auto begin = std::chrono::steady_clock::now();
    const std::uint64_t before = load.durable_reports();
    const double server_before = server.cpu_seconds();
    const double client_before = own_cpu_seconds();
    std::this_thread::sleep_for(std::chrono::seconds(arguments.seconds));
    const std::uint64_t reports = load.durable_reports() - before;
    const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    const double server_cpu = server.cpu_seconds() - server_before;
    const double client_cpu = own_cpu_seconds() - client_before;

    const auto totals = load.finish();
    server.stop();
    const double records = static_cast<double>(reports) * arguments.load.tensors;
    const double per_second = records / elapsed;
    const double bytes =
        static_cast<double>(server.history_bytes()) / (static_cast<double>(totals.durable) * arguments.load.tensors);
    if (arguments.json) {
      std::printf(
          "{\"records_per_s\": %.0f, \"bytes_per_record\": %.2f, \"seconds\": %.3f, \"streams\": %u, \"tensors\": %u, "
          "\"reports_durable\": %llu, \"reports_thinned\": %llu, \"reports_dropped\": %llu, \"server_cpu_ns_per_record\": "
          "%.1f, "
          "\"client_cpu_ns_per_record\": %.1f}\n",
          per_second, bytes, elapsed, arguments.load.streams, arguments.load.tensors,
          static_cast<unsigned long long>(totals.durable), static_cast<unsigned long long>(totals.thinned),
          static_cast<unsigned long long>(totals.dropped), server_cpu / records * 1e9, client_cpu / records * 1e9);
    } else {
      std::printf("%u streams of %u tensors, %.1f s\n", arguments.load.streams, arguments.load.tensors, elapsed);
      std::printf("records_per_s     %.0f durable\nbytes_per_record  %.2f on disk\n", per_second, bytes);
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
