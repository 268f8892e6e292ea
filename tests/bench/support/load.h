// Ranks that report as fast as the server makes their reports durable, through the real client library. What they report is in
// load_source.h: small tensors that they measure, or, given captured runs, the statistics of those.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "tests/bench/support/capture.h"

namespace scalewatch::bench {

struct LoadOptions {
  std::string server;
  std::string run = "load";
  std::uint32_t streams = 8;
  std::uint32_t tensors = 1000;                      // of a stream and attempt
  std::uint64_t in_flight = 32;                      // reports of a stream that may wait to become durable
  std::uint32_t attempts_per_s = 0;                  // of a stream; 0 = as fast as the server takes them
  const std::vector<CapturedRun>* replay = nullptr;  // null: tensors are measured. Must outlive the load
};

struct LoadTotals {
  std::uint64_t durable = 0;  // reports
  std::uint64_t thinned = 0;  // reports that lost their tensor statistics
  std::uint64_t dropped = 0;  // reports lost
  // From the end of an attempt to the client's knowing that its report is durable, by whole milliseconds: how many.
  std::vector<std::uint64_t> durable_after_ms;
};

class Load {
 public:
  explicit Load(LoadOptions options);  // starts the streams
  ~Load();
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

  [[nodiscard]] std::uint64_t durable_reports() const;
  // Ends the streams once all of their reports are durable. Throws std::runtime_error when a stream failed.
  LoadTotals finish();

 private:
  struct Stream;
  void run(Stream& stream, std::uint32_t rank);

  LoadOptions options_;
  std::atomic<bool> stop_{false};
  std::vector<Stream> streams_;
  std::vector<std::thread> threads_;
};

}  // namespace scalewatch::bench
