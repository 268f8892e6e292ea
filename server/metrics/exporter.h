// The Prometheus text page, made anew at every scrape from what the engine publishes: events cost nothing here, and the series
// of a run that left are gone with it.
//
// Thread-safe when the sources are.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
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
};

struct Options {
  // Runs on the page; beyond it those with the worst open finding, then the newest, stay. A run is about 25 series.
  std::size_t max_runs = 500;
  // Scalers of one run on the page.
  std::size_t max_scalers_per_run = 16;
  // A run that is finished or lost stays on the page this long after its last report.
  std::chrono::milliseconds finished_for{600'000};
};

struct Sources {
  std::function<std::vector<std::shared_ptr<const v1::GetRunResponse>>()> overviews;
  std::function<engine::EngineStats()> stats;
  std::function<std::vector<SinkSample>()> sinks;
  std::function<std::int64_t()> wall_ms;  // server's clock, Unix milliseconds
};

class Exporter {
 public:
  Exporter(Options options, Sources sources, const std::string& version);
  ~Exporter();

  // Text exposition format 0.0.4.
  [[nodiscard]] std::string page() const;
  static constexpr const char* kContentType = "text/plain; version=0.0.4; charset=utf-8";

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace scalewatch::metrics
