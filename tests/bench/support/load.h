// Ranks that report as fast as the server makes their reports durable, through the real client library.
//
// Small tensors (64 elements), so that the path of records is what costs, not the pass over data. Every tensor of every attempt
// reads another slice of a pool of random values: no two reports are equal.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace scalewatch::bench {

struct LoadOptions {
  std::string server;
  std::string run = "load";
  std::uint32_t streams = 8;
  std::uint32_t tensors = 1000;      // of a stream and attempt
  std::uint64_t in_flight = 32;      // reports of a stream that may wait to become durable
  std::uint32_t attempts_per_s = 0;  // of a stream; 0 = as fast as the server takes them
};

struct LoadTotals {
  std::uint64_t durable = 0;  // reports
  std::uint64_t thinned = 0;  // reports that lost their tensor statistics
  std::uint64_t dropped = 0;  // reports lost
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
  std::vector<float> singles_;
  std::vector<_Float16> halves_;
  std::atomic<bool> stop_{false};
  std::vector<Stream> streams_;
  std::vector<std::thread> threads_;
};

}  // namespace scalewatch::bench
