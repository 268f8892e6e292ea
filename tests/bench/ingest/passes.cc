#include "tests/bench/ingest/passes.h"

#include <sys/resource.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <stdexcept>
#include <thread>
#include <unordered_map>
#include <vector>

#include "server/history/chunk.h"
#include "server/history/sqlite.h"
#include "tests/bench/support/load.h"
#include "tests/bench/support/server_process.h"

namespace scalewatch::bench {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Until all reports are in chunks and what was received of them is gone, its room too. Asks the file, for on a busy machine a
// server that works looks like one that is done.
void wait_until_compacted(const ServerProcess& server) {
  constexpr auto kMost = 600s;
  constexpr std::int64_t kFewPages = 257;  // the server keeps 256 for what comes
  const auto begin = Clock::now();
  while (Clock::now() - begin < kMost) {
    history::Connection file(server.data() / "history.db", SQLITE_OPEN_READONLY);
    const auto left = file.scalar("SELECT (SELECT count(*) FROM reports) - (SELECT coalesce(sum(reports), 0) FROM stretches)");
    const auto unused = file.scalar("PRAGMA freelist_count");  // pages that have not gone back to the file system yet
    if (left == 0 && unused < kFewPages &&
        file.scalar("SELECT count(*) FROM payloads") == file.scalar("SELECT count(*) FROM kept_payloads")) {
      return;
    }
    std::this_thread::sleep_for(500ms);
  }
  throw std::runtime_error("compaction did not catch up in ten minutes");
}

// Of counts by whole milliseconds; seconds, rounded up.
double quantile(const std::vector<std::uint64_t>& by_ms, double share) {
  std::uint64_t all = 0;
  for (const std::uint64_t count : by_ms) all += count;
  const auto wanted = static_cast<std::uint64_t>(static_cast<double>(all) * share);
  std::uint64_t below = 0;
  for (std::size_t ms = 0; ms < by_ms.size(); ++ms) {
    below += by_ms[ms];
    if (below > wanted) return static_cast<double>(ms + 1) / 1e3;
  }
  return 0;
}

double own_cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::string config_of(const PassOptions& options) {
  // Its streams are ranks of one run: each is to send everything.
  std::string config = "collection:\n  stats_leader: false\nhistory:\n  idle_after: 2s\n";
  config += std::string("  compaction: ") + (options.compaction ? "true\n" : "false\n");
  if (options.keep_attempts > 0) {
    config += "  keep_attempts: " + std::to_string(options.keep_attempts) + "\n  retention_every: 1s\n";
  }
  return config;
}

void watch(const Load& load, const PassOptions& options, Pass& pass) {
  const auto begin = Clock::now();
  const std::uint64_t before = load.durable_reports();
  std::uint64_t newest = before;
  auto moved = begin;
  std::vector<double> pauses;
  const auto done = [&] {
    if (options.records > 0) return (newest - before) * options.tensors >= options.records;
    return seconds_since(begin) >= options.seconds;
  };
  while (!done()) {
    std::this_thread::sleep_for(1ms);
    const std::uint64_t now = load.durable_reports();
    if (now == newest) continue;
    newest = now;
    pauses.push_back(seconds_since(moved));
    moved = Clock::now();
  }
  pass.seconds = seconds_since(begin);
  pass.records = static_cast<double>(newest - before) * options.tensors;
  std::sort(pauses.begin(), pauses.end());
  if (!pauses.empty()) {
    pass.longest_pause = pauses.back();
    pass.pause_p99 = pauses[std::min(pauses.size() - 1, pauses.size() * 99 / 100)];
  }
}

}  // namespace

Pass run_pass(const PassOptions& options) {
  Pass pass;
  ServerProcess server(config_of(options));
  LoadOptions load_options;
  load_options.server = server.address();
  load_options.streams = options.streams;
  load_options.tensors = options.tensors;
  load_options.attempts_per_s = options.attempts_per_s;
  load_options.replay = options.replay;
  load_options.in_flight = options.in_flight;
  Load load(load_options);
  while (load.durable_reports() < 2U * options.streams) std::this_thread::sleep_for(10ms);
  std::this_thread::sleep_for(1s);  // connections and caches are warm

  const double server_before = server.cpu_seconds();
  const auto threads_before = server.cpu_by_thread();
  const double client_before = own_cpu_seconds();
  watch(load, options, pass);
  pass.server_cpu = server.cpu_seconds() - server_before;
  pass.client_cpu = own_cpu_seconds() - client_before;
  for (const auto& [name, seconds] : server.cpu_by_thread()) {
    const auto earlier = threads_before.find(name);
    pass.threads[name] = seconds - (earlier == threads_before.end() ? 0 : earlier->second);
  }
  const auto totals = load.finish();
  pass.durable = totals.durable;
  pass.thinned = totals.thinned;
  pass.dropped = totals.dropped;
  pass.durable_after_p50 = quantile(totals.durable_after_ms, 0.5);
  pass.durable_after_p99 = quantile(totals.durable_after_ms, 0.99);
  pass.all_records = static_cast<double>(totals.durable) * options.tensors;
  if (!options.settle) {
    pass.peak_memory = server.peak_memory();
    return pass;
  }
  pass.bytes_at_end = static_cast<double>(server.history_bytes());
  const auto finished = Clock::now();
  const double compaction_at_end = server.cpu_seconds("compactor");
  if (options.compaction) wait_until_compacted(server);
  pass.catch_up = seconds_since(finished);
  pass.compaction_cpu = server.cpu_seconds("compactor");
  if (pass.compaction_cpu > 0) pass.compaction_after = 1 - compaction_at_end / pass.compaction_cpu;
  pass.peak_memory = server.peak_memory();
  server.stop();
  pass.bytes = static_cast<double>(server.history_bytes());
  pass.entropy = column_entropy(server.data() / "history.db");
  return pass;
}

std::map<std::string, double> column_entropy(const std::string& history) {
  constexpr std::size_t kRecords = 200'000;
  struct Column {
    const char* name;
    std::uint64_t (*bits)(const Record&);
  };
  static constexpr auto kOf = [](float value) -> std::uint64_t { return std::bit_cast<std::uint32_t>(value); };
  static const std::vector<Column> columns{
      {"min", [](const Record& r) { return kOf(r.min); }},
      {"max", [](const Record& r) { return kOf(r.max); }},
      {"absmin", [](const Record& r) { return kOf(r.absmin_nonzero); }},
      {"sum", [](const Record& r) { return std::bit_cast<std::uint64_t>(r.sum); }},
      {"sum_sq", [](const Record& r) { return std::bit_cast<std::uint64_t>(r.sum_sq); }},
      {"zero", [](const Record& r) { return r.zero; }},
      {"subnormal", [](const Record& r) { return r.subnormal; }},
  };
  std::vector<std::unordered_map<std::uint64_t, std::uint32_t>> counts(columns.size());
  std::size_t records = 0;
  history::Connection file(history, SQLITE_OPEN_READONLY);
  history::Query rows(file,
                      "SELECT stretches.reports, chunks.frames FROM chunks JOIN stretches ON stretches.id = chunks.id >> 20");
  history::FrameView view;
  while (records < kRecords && rows.step()) {
    const auto reports = static_cast<std::size_t>(rows.i64(0));
    for (std::size_t tensor = 0; tensor < history::kChunkTensors; ++tensor) {
      const auto frame = history::frame_of(rows.view(1), tensor);
      if (frame.empty() || !view.open(frame, reports, 0)) continue;
      for (std::size_t place = 0; place < reports; ++place) {
        const auto measured = view.at(place);
        if (!measured) continue;
        ++records;
        for (std::size_t c = 0; c < columns.size(); ++c) ++counts[c][columns[c].bits(measured->record)];
      }
    }
  }
  std::map<std::string, double> entropy;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    double bits = 0;
    for (const auto& [value, count] : counts[c]) {
      const double share = static_cast<double>(count) / static_cast<double>(records);
      bits -= share * std::log2(share);
    }
    entropy[columns[c].name] = bits;
  }
  return entropy;
}

}  // namespace scalewatch::bench
