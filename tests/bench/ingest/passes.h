// One load against a server of its own.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/bench/support/capture.h"

namespace scalewatch::bench {

struct PassOptions {
  bool compaction = true;
  std::uint32_t streams = 8;
  std::uint32_t tensors = 1000;
  std::uint32_t attempts_per_s = 0;                  // of a stream; 0 = as fast as the server takes them
  std::uint32_t in_flight = 64;                      // reports of a stream that may wait to become durable
  std::uint32_t seconds = 10;                        // measured
  std::uint64_t records = 0;                         // in place of seconds: until so many are durable
  std::uint64_t keep_attempts = 0;                   // beyond it retention thins while the load runs; 0 = none
  bool settle = false;                               // wait until compaction has caught up, and look at the file
  const std::vector<CapturedRun>* replay = nullptr;  // null: the client measures small tensors
};

struct Pass {
  double seconds = 0;
  double records = 0;        // durable while it was measured
  double longest_pause = 0;  // seconds without a report becoming durable
  double pause_p99 = 0;      // of the pauses between two moments of durability
  double server_cpu = 0;     // seconds, as the next three
  double client_cpu = 0;
  std::map<std::string, double> threads;  // the server's, by name
  std::uint64_t peak_memory = 0;          // of the server, bytes
  std::uint64_t durable = 0;              // reports, of the whole load
  std::uint64_t thinned = 0;
  std::uint64_t dropped = 0;
  double durable_after_p50 = 0;  // seconds from the end of an attempt to the client's knowing that its report is durable
  double durable_after_p99 = 0;
  // With settle.
  double all_records = 0;
  double bytes_at_end = 0;  // on disk when the load ended
  double bytes = 0;         // once compaction had caught up
  double catch_up = 0;      // seconds
  double compaction_cpu = 0;
  double compaction_after = 0;            // share of it after the load
  std::map<std::string, double> entropy;  // by column, bits a value
};

Pass run_pass(const PassOptions& options);

// Bits a value of the records' columns in a history: Shannon's entropy of the values as they are found, of up to 200,000
// records.
std::map<std::string, double> column_entropy(const std::string& history);

}  // namespace scalewatch::bench
