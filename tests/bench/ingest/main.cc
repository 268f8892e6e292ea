// Records a second from clients to durable on disk: real scalewatchd, real store, real client library, all on this machine.
// Then waits until compaction has caught up, for what a record takes on disk; then the same with retention at work beside it,
// for how long that holds a commit up; then ClickHouse and Prometheus, where Debian's are installed, for what others take here.
// What clients send are the statistics of 4,400 attempts of four demos, captured before (and kept beside the program).
//   scalewatch_bench_ingest [--json] [--seconds N] [--streams N] [--tensors N] [--rate N] [--in-flight N] [--measured]
//                           [--no-compaction] [--only] [--linear]
// --rate: attempts a second of each stream, in place of as fast as can be. --in-flight: reports of a stream that are not
// durable yet. --only: nothing but the first. --measured: clients measure tensors of 64 elements themselves.
// --linear: 1, 4 and 16 million records, each against a server of its own.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tests/bench/ingest/passes.h"
#include "tests/bench/support/output.h"

namespace {

using namespace scalewatch;

constexpr std::size_t kDemos = 4;
constexpr std::size_t kAttempts = 1100;  // of each

struct Arguments {
  bool json = false;
  bool only = false;
  bool linear = false;
  bool measured = false;
  bench::PassOptions pass;
};

Arguments parse(int argc, char** argv) {
  Arguments out;
  const std::map<std::string_view, std::uint32_t*> numbers{{"--seconds", &out.pass.seconds},
                                                           {"--streams", &out.pass.streams},
                                                           {"--tensors", &out.pass.tensors},
                                                           {"--rate", &out.pass.attempts_per_s},
                                                           {"--in-flight", &out.pass.in_flight}};
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--json") {
      out.json = true;
    } else if (flag == "--only") {
      out.only = true;
    } else if (flag == "--linear") {
      out.linear = true;
    } else if (flag == "--measured") {
      out.measured = true;
    } else if (flag == "--no-compaction") {
      out.pass.compaction = false;
    } else if (const auto found = numbers.find(flag); found != numbers.end() && i + 1 < argc) {
      const unsigned long value = std::strtoul(argv[++i], nullptr, 10);
      if (value == 0 || value > 1'000'000) throw std::invalid_argument(std::string(flag) + " needs a number from 1 to 1000000");
      *found->second = static_cast<std::uint32_t>(value);
    } else {
      throw std::invalid_argument(
          "usage: scalewatch_bench_ingest [--json] [--seconds N] [--streams N] [--tensors N] [--rate N] [--in-flight N] "
          "[--measured] [--no-compaction] [--only] [--linear]");
    }
  }
  return out;
}

using bench::Output;

void tell(const bench::Pass& pass, const bench::PassOptions& options, Output& out) {
  constexpr double kNs = 1e9;
  out.put("records_per_s", pass.records / pass.seconds, "durable (goal 2000000)", 0);
  out.put("seconds", pass.seconds, "s");
  out.put("streams", options.streams, "", 0);
  out.put("tensors", options.tensors, "an attempt", 0);
  out.put("bytes_per_record_when_the_load_ended", pass.bytes_at_end / pass.all_records, "on disk", 2);
  out.put("bytes_per_record", pass.bytes / pass.all_records, "on disk", 2);
  out.put("catch_up_s", pass.catch_up, "s of compaction after the load");
  out.put("compaction_cpu_ns_per_record", pass.compaction_cpu / pass.all_records * kNs, "ns");
  out.put("compaction_done_after_the_load", pass.compaction_after, "of it", 2);
  out.put("server_cpu_ns_per_record", pass.server_cpu / pass.records * kNs, "ns during the load");
  for (const auto& [name, seconds] : pass.threads) {
    if (const double ns = seconds / pass.records * kNs; ns >= 0.5) out.put("  server thread " + name, ns, "ns a record");
  }
  out.put("client_cpu_ns_per_record", pass.client_cpu / pass.records * kNs,
          options.replay == nullptr ? "ns, with its measuring" : "ns");
  if (options.attempts_per_s == 0) {
    out.put("durable_after_p50_ms", pass.durable_after_p50 * 1e3, "ms from the end of an attempt");
    out.put("durable_after_p99_ms", pass.durable_after_p99 * 1e3, "ms (goal 500)");
  }
  out.put("durable_pause_p99_ms", pass.pause_p99 * 1e3, "ms");
  out.put("durable_pause_longest_ms", pass.longest_pause * 1e3, "ms");
  out.put("server_peak_memory_mb", static_cast<double>(pass.peak_memory) / 1e6, "MB (goal 512)");
  out.put("reports_durable", static_cast<double>(pass.durable), "", 0);
  out.put("reports_thinned", static_cast<double>(pass.thinned), "", 0);
  out.put("reports_dropped", static_cast<double>(pass.dropped), "", 0);
  for (const auto& [name, bits] : pass.entropy) out.put("  entropy of " + name, bits, "bits a value");
}

void linear(const bench::PassOptions& usual, Output& out) {
  for (const std::uint64_t millions : {1, 4, 16}) {
    bench::PassOptions options = usual;
    options.records = millions * 1'000'000;
    const auto pass = bench::run_pass(options);
    const std::string name = std::to_string(millions) + " million records";
    out.put(name + ", records_per_s", pass.records / pass.seconds, "durable", 0);
    out.put(name + ", server_peak_memory_mb", static_cast<double>(pass.peak_memory) / 1e6, "MB");
  }
}

// Of the tensors that are replayed: those whose statistics take more room.
double share_of_fp32(const std::vector<bench::CapturedRun>& runs) {
  std::size_t fp32 = 0;
  for (const auto& tensor : runs.front().tensors) fp32 += tensor.dtype == SCALEWATCH_FP32 ? 1 : 0;
  return static_cast<double>(fp32) / static_cast<double>(runs.front().tensors.size());
}

// The longest pause between two moments of durability, without retention and with it.
void retention(const bench::Pass& without, const bench::PassOptions& usual, Output& out) {
  bench::PassOptions options = usual;
  options.keep_attempts = 300;
  options.records = 0;
  const auto pass = bench::run_pass(options);
  out.put("with retention at work, records_per_s", pass.records / pass.seconds, "durable", 0);
  out.put("with retention at work, durable_pause_p99_ms", pass.pause_p99 * 1e3, "ms");
  out.put("with retention at work, durable_pause_longest_ms", pass.longest_pause * 1e3, "ms");
  out.put("retention holds a commit up by, at p99", (pass.pause_p99 - without.pause_p99) * 1e3, "ms (goal 50)");
}

void others(double records_per_s, Output& out) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen("/usr/bin/python3 -B " SCALEWATCH_BENCH_OTHERS, "r"), pclose);
  if (!pipe) throw std::runtime_error("cannot run " SCALEWATCH_BENCH_OTHERS);
  std::array<char, 256> line;
  while (std::fgets(line.data(), line.size(), pipe.get()) != nullptr) {
    const std::string text(line.data(), std::string_view(line.data()).find_last_not_of('\n') + 1);
    const auto space = text.find(' ');
    const std::string name = text.substr(0, space);
    char* end = nullptr;
    const double rate = space == std::string::npos ? 0 : std::strtod(text.c_str() + space, &end);
    if (rate <= 0) {
      out.say(name, "not measured: " + (space == std::string::npos ? text : text.substr(space + 1)));
    } else if (name == "clickhouse") {
      out.put("clickhouse, 16-column rows a second", rate, "", 0);
      out.put("records a second to its rows", records_per_s / rate, "times", 2);
    } else {
      out.put("prometheus, samples a second by remote write", rate, "", 0);
      out.put("records a second to its records of 12", records_per_s / (rate / 12), "times", 1);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Arguments arguments = parse(argc, argv);
    Output out(arguments.json);
    std::vector<bench::CapturedRun> captured;
    if (!arguments.measured) {
      captured =
          bench::capture_demo(std::filesystem::canonical("/proc/self/exe").parent_path() / "bench-demo", kDemos, kAttempts);
      arguments.pass.replay = &captured;
      out.put("captured attempts of the demo", static_cast<double>(kDemos * kAttempts), "", 0);
      out.put("of their tensors fp32", share_of_fp32(captured), "", 2);
    }
    if (arguments.linear) {
      linear(arguments.pass, out);
      return 0;
    }
    bench::PassOptions first = arguments.pass;
    first.settle = true;
    const auto pass = bench::run_pass(first);
    tell(pass, first, out);
    if (!arguments.only) {
      retention(pass, arguments.pass, out);
      others(pass.records / pass.seconds, out);
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "scalewatch_bench_ingest: %s\n", error.what());
    return 1;
  }
}
