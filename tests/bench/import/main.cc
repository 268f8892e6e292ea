// What reading a log costs on one core: a mix of all formats, made in memory, fed in blocks as a file would be. Reading alone,
// and with the story and the domain's judgement; and what of that the domain takes, an attempt.
//
// scalewatch_bench_import [--json] [--mb N] [--only reading|whole|domain]    (2,000 MB by default)
// scalewatch_bench_import --write FILE [--mb N]                              the mix as a file, for the programs themselves
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "server/domain/run_state.h"
#include "server/logimport/diagnose.h"
#include "server/logimport/reader.h"
#include "tests/bench/import/mix.h"

namespace scalewatch::logimport {
namespace {

constexpr double kGoalMbPerSecond = 200;
constexpr double kGoalMemoryMb = 64;
constexpr std::size_t kMixBytes = 8 << 20;
constexpr std::size_t kBlockBytes = 256 * 1024;  // as the source reads

class Count : public ReadingSink {
 public:
  void take(const Reading& reading) override { sum_ += reading.line; }
  std::uint64_t sum() const { return sum_; }

 private:
  std::uint64_t sum_ = 0;
};

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double peak_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

// Feeds so many bytes of the mix; returns CPU seconds.
template <class Feed>
double feed(const Mix& mix, std::uint64_t total, Feed&& give) {
  const double start = cpu_seconds();
  std::uint64_t fed = 0;
  while (fed < total) {
    for (std::size_t at = 0; at < mix.text.size() && fed < total; at += kBlockBytes) {
      const std::string_view block = std::string_view(mix.text).substr(at, kBlockBytes);
      give(block);
      fed += block.size();
    }
  }
  return cpu_seconds() - start;
}

struct Judged {
  std::uint64_t attempts = 0;  // that one pass of the mix tells
  double ns = 0;               // an attempt, in the domain
};

// The inputs of one pass of the mix, folded again without the reading and the story.
Judged judge(const Mix& mix) {
  constexpr int kRounds = 20;
  std::vector<domain::Input> inputs;
  LogDoctor doctor({}, {}, [&](const domain::Input& input) { inputs.push_back(input); });
  doctor.begin_file();
  doctor.feed(mix.text);
  doctor.end_file();
  doctor.finish();
  Judged judged;
  for (const domain::Input& input : inputs) judged.attempts += std::holds_alternative<domain::AttemptClosed>(input) ? 1 : 0;
  domain::RunState state;
  const double start = cpu_seconds();
  for (int round = 0; round < kRounds; ++round) {
    for (const domain::Input& input : inputs) state.fold(input);
  }
  judged.ns = (cpu_seconds() - start) * 1e9 / static_cast<double>(judged.attempts * kRounds);
  return judged;
}

// What was asked for; all of it by default.
struct Options {
  bool json = false;
  std::uint64_t megabytes = 2000;
  std::string_view only;      // "reading", "whole" or "domain": nothing else is run, for profilers
  const char* out = nullptr;  // the mix goes to this file, and nothing is measured
};

int write_mix(const Mix& mix, const Options& options) {
  std::FILE* file = std::fopen(options.out, "wb");
  if (file == nullptr) return 1;
  bool well = true;
  for (std::uint64_t left = options.megabytes * 1000 * 1000; left > 0 && well;) {
    const std::size_t now = std::min<std::uint64_t>(left, mix.text.size());
    well = std::fwrite(mix.text.data(), 1, now, file) == now;
    left -= now;
  }
  return std::fclose(file) == 0 && well ? 0 : 1;
}

int run(const Options& options) {
  const Mix mix = make_mix(kMixBytes, 7);
  if (options.out != nullptr) return write_mix(mix, options);
  const auto wanted = [&](std::string_view part) { return options.only.empty() || options.only == part; };
  const std::uint64_t total = options.megabytes * 1000 * 1000;
  double reading = 0;
  double whole = 0;
  double read_peak = 0;
  double whole_peak = 0;
  ReadSummary summary;
  Judged judged;
  if (wanted("reading")) {
    Count sink;
    LogReader reader(sink);
    reader.begin_file(0);
    reading = feed(mix, total, [&](std::string_view block) { reader.feed(block); });
    reader.end_file();
    summary = reader.summary();
    read_peak = peak_mb();
  }
  if (wanted("whole")) {
    LogDoctor doctor;
    doctor.begin_file();
    whole = feed(mix, total, [&](std::string_view block) { doctor.feed(block); });
    doctor.end_file();
    doctor.finish();
    summary = doctor.summary();
    whole_peak = peak_mb();
  }
  if (wanted("domain")) judged = judge(mix);
  const double fed = static_cast<double>(total) / 1e6;
  const auto rate = [&](double seconds) { return seconds > 0 ? fed / seconds : 0; };
  if (!options.only.empty()) {
    std::printf("reading %.1f MB/s, whole %.1f MB/s, domain %.0f ns an attempt\n", rate(reading), rate(whole), judged.ns);
    return 0;
  }
  const double passes = static_cast<double>(total) / static_cast<double>(mix.text.size());
  const double attempts = static_cast<double>(judged.attempts) * passes;
  const double story_ns = (whole - reading) * 1e9 / attempts - judged.ns;
  const double matching = static_cast<double>(mix.matching) / static_cast<double>(mix.lines);
  const double per_line = reading * 1e9 / static_cast<double>(summary.lines);
  const auto lines = static_cast<unsigned long long>(summary.lines);
  const auto readings = static_cast<unsigned long long>(summary.readings);
  if (options.json) {
    std::printf(
        "{\"mb\": %.0f, \"lines\": %llu, \"readings\": %llu, \"matching_share\": %.3f, \"mb_per_second\": %.1f, "
        "\"goal_mb_per_second\": "
        "%.0f, \"ns_per_line\": %.0f, \"with_story_mb_per_second\": %.1f, \"peak_mb\": %.1f, \"with_story_peak_mb\": %.1f, "
        "\"goal_peak_mb\": %.0f, \"attempts\": %.0f, \"reading_ns_per_attempt\": %.0f, \"story_ns_per_attempt\": %.0f, "
        "\"domain_ns_per_attempt\": %.0f}\n",
        fed, lines, readings, matching, rate(reading), kGoalMbPerSecond, per_line, rate(whole), read_peak, whole_peak,
        kGoalMemoryMb, attempts, reading * 1e9 / attempts, story_ns, judged.ns);
  } else {
    std::printf("%.0f MB, %llu lines, %.0f%% of them matter, %llu readings\n", fed, lines, matching * 100, readings);
    std::printf("  reading               %7.1f MB/s of one core   (goal %.0f)   %.0f ns a line\n", rate(reading),
                kGoalMbPerSecond, per_line);
    std::printf("  with story and rules  %7.1f MB/s of one core   (goal %.0f)\n", rate(whole), kGoalMbPerSecond);
    std::printf("  peak memory           %7.1f MB, %.1f with the story   (goal %.0f; 8 of them are the mix)\n", read_peak,
                whole_peak, kGoalMemoryMb);
    std::printf("  an attempt (%.0f)     reading %.0f ns, story %.0f ns, domain with its rules %.0f ns\n", attempts,
                reading * 1e9 / attempts, story_ns, judged.ns);
  }
  return 0;
}

}  // namespace
}  // namespace scalewatch::logimport

int main(int argc, char** argv) {
  scalewatch::logimport::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    if (option == "--json") {
      options.json = true;
    } else if (option == "--mb" && i + 1 < argc) {
      options.megabytes = std::max<std::uint64_t>(1, std::strtoull(argv[++i], nullptr, 10));
    } else if (option == "--only" && i + 1 < argc) {
      options.only = argv[++i];
    } else if (option == "--write" && i + 1 < argc) {
      options.out = argv[++i];
    } else {
      std::fprintf(stderr, "usage: scalewatch_bench_import [--json] [--mb N] [--only reading|whole|domain] [--write FILE]\n");
      return 2;
    }
  }
  return scalewatch::logimport::run(options);
}
