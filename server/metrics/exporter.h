// The Prometheus text page, made anew at every scrape from what the engine publishes: events cost nothing here, and the series
// of a run that left are gone with it. What metrics there are: catalog.h.
//
// Thread-safe when the sources are.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "scalewatch/v1/history.pb.h"
#include "server/engine/engine.h"

namespace scalewatch::metrics {

// Deliveries of one alert sink; cumulative unless said otherwise.
struct SinkSample {
  std::string sink;
  std::uint64_t delivered = 0;
  std::uint64_t failed = 0;   // tries that failed
  std::uint64_t dropped = 0;  // given up for good
  std::uint64_t pending = 0;  // now: waiting for a try
  double oldest_seconds = 0;  // now: age of the oldest of these
  std::uint64_t requests = 0;
  double request_seconds = 0;
  std::uint64_t reminders = 0;
  std::uint64_t watchdogs = 0;
  std::uint64_t dead_letters = 0;  // now
};

// The feed of a history that several servers share; cumulative unless said otherwise.
struct SharedSample {
  bool reachable = true;        // now
  bool thinning = false;        // now: more waits than is kept for it
  double lag_seconds = 0;       // now: age of the oldest commit that is not there
  std::uint64_t lag_bytes = 0;  // now: payloads that wait
  std::uint64_t batches = 0;
  std::uint64_t records = 0;
  std::uint64_t errors = 0;  // tries that failed
};

// The history's files; absent: not known.
struct StoreSample {
  std::optional<std::uint64_t> database_bytes;
  std::optional<std::uint64_t> wal_bytes;
  std::optional<std::uint64_t> disk_free_bytes;
  std::uint64_t cache_hits = 0;  // pages that queries asked for, cumulative
  std::uint64_t cache_misses = 0;
  std::uint64_t commits_lost = 0;    // since the store was made
  std::uint64_t ballast_bytes = 0;   // now: room that is kept for alerts
  std::uint64_t ballast_wanted = 0;  // as configured
  // history.max_run_size and what each run's chunks take, by name, as far as that was looked at; absent: there is no limit.
  std::optional<std::uint64_t> run_limit_bytes{};
  std::map<std::string, std::uint64_t, std::less<>> run_bytes{};
  std::optional<SharedSample> shared{};  // absent: there is none
};

// Who was turned away, by cause; cumulative.
struct RefusalSample {
  std::vector<std::pair<std::string, std::uint64_t>> by_cause;
  std::uint64_t slowed = 0;  // messages after which a stream was read later
};

// What a server does among others that share the runs; cumulative unless said otherwise.
struct FleetSample {
  std::uint64_t there = 0;  // now: others that answer
  std::uint64_t gone = 0;   // now: others that don't
  std::uint64_t moved_clients = 0;
  std::uint64_t taken_over = 0;
  std::uint64_t yielded = 0;
};

struct ReloadSample {
  bool last_successful = true;
  std::int64_t success_ms = 0;  // server's clock, Unix milliseconds: of the newest that was taken
  std::uint64_t taken = 0;
  std::uint64_t refused = 0;
};

struct Options {
  // Runs on the page; beyond it those with the worst open finding, then the newest, stay. A run is about 80 series: METRICS.md
  // says what they are at most.
  std::size_t max_runs = 500;
  // Scalers of one run on the page.
  std::size_t max_scalers_per_run = 16;
  // A run that is finished or lost stays on the page this long after its last report.
  std::chrono::milliseconds finished_for{600'000};
};

[[nodiscard]] std::int64_t last_sign_of_life_ms(const v1::RunSummary& run);
// Running, or ended within options.finished_for.
[[nodiscard]] bool on_page(const v1::RunSummary& run, const Options& options, std::int64_t now_ms);

struct Sources {
  std::function<std::vector<engine::RunShown>()> runs;
  std::function<engine::EngineStats()> stats;
  std::function<std::vector<SinkSample>()> sinks;
  std::function<StoreSample()> store;
  std::function<ReloadSample()> reloads;
  std::function<std::int64_t()> wall_ms;                // server's clock, Unix milliseconds
  std::function<std::uint64_t()> unreadable_alerts{};   // absent: not told
  std::function<RefusalSample()> refusals{};            // likewise
  std::function<std::optional<FleetSample>()> fleet{};  // likewise; nothing: the server is alone
};

class Exporter {
 public:
  Exporter(Options options, Sources sources, const std::string& version);
  ~Exporter();

  // Text exposition format 0.0.4.
  [[nodiscard]] std::string page() const;
  static constexpr const char* kContentType = "text/plain; version=0.0.4; charset=utf-8";

  // Runs that ended before this server began, from its history.
  void remember_ended(std::vector<engine::RunShown> ended);
  // See CallMetrics.
  void rpc_ended(const std::string& method, const std::string& code, std::optional<double> seconds);
  void http_ended(const std::string& route, unsigned status, double seconds);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace scalewatch::metrics
